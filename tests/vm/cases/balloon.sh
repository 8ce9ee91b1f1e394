# slow: what the guest used once and has freed is the host's again, while the guest goes on.
busybox mkfifo /tmp/go
$VM -- sh -c 'dd if=/dev/zero of=/dev/shm/f bs=1M count=80 2>/dev/null; echo full; read l; rm /dev/shm/f; echo freed; read l' < /tmp/go > /tmp/seen & pid=$!
exec 8> /tmp/go
held() { # KiB of the largest process of ours: the monitor
	for p in /proc/[0-9]*; do busybox sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' $p/status 2>/dev/null; done | busybox sort -n | busybox tail -1
}
until_seen() { n=0; until busybox grep -q "$1" /tmp/seen; do n=$((n + 1)); [ $n -gt 300 ] && { fail "never $1"; return; }; busybox sleep 1; done; }
until_seen full; full=$(held)
echo >&8; until_seen freed
n=0; until [ $(($(held) + 60000)) -lt $full ] || [ $n -gt 120 ]; do n=$((n + 1)); busybox sleep 1; done
now=$(held); echo "the monitor held $full KiB, $n s after the guest freed its memory $now KiB"
[ $((now + 60000)) -lt $full ] || fail "the host got nothing back"
echo >&8; exec 8>&-; wait $pid || fail "status $?"
