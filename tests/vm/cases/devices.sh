# One machine with everything: a card on a tap, a port of its own, memory that it gives back.
busybox tunctl -t dtap > /dev/null && busybox ifconfig dtap 10.76.0.1 netmask 255.255.255.0 up || fail "making a tap"
busybox mkdir -p /tmp/web; busybox seq 5000 > /tmp/web/f; busybox httpd -p 10.76.0.1:8000 -h /tmp/web
busybox mkfifo /tmp/turn
$VM --tap dtap --tap-addr 10.76.0.2/24 --vsock /tmp/du -- sh -c 'ping -c 1 -W 60 10.76.0.1 > /dev/null && echo pinged; wget -q -O - http://10.76.0.1:8000/f | sha256sum
	dd if=/dev/zero of=/dev/shm/f bs=1M count=64 2>/dev/null; echo full; read l; rm /dev/shm/f; vm-vsock listen 5000' < /tmp/turn > /tmp/seen & pid=$!
exec 8> /tmp/turn
held() { # KiB of the largest process of ours: the monitor
	for p in /proc/[0-9]*; do busybox sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' $p/status 2>/dev/null; done | busybox sort -n | busybox tail -1
}
less() { [ $(($(held) + 40000)) -lt $full ]; }
within 250 busybox grep -q full /tmp/seen || fail "no guest: $(busybox cat /tmp/seen)"
is "$(busybox head -2 /tmp/seen)" "pinged
$(busybox sha256sum < /tmp/web/f)"
full=$(held); echo >&8
within 100 busybox grep -q listening /tmp/seen || fail "nobody listens: $(busybox cat /tmp/seen)"
within 100 less || fail "the monitor held $full KiB, and $(held) after the guest had freed 64 MiB"
is "$(echo x | vm-vsock connect /tmp/du 4999)" ""
echo hello | vm-vsock connect /tmp/du 5000 > /tmp/back
is "$(busybox tail -1 /tmp/back)" HELLO
exec 8>&-; wait $pid || fail "status $?"
[ -e /tmp/du ] && fail "the socket is left"
busybox tunctl -d dtap > /dev/null
