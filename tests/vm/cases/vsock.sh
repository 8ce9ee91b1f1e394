# slow: a program of the host calls a port of the guest; one where nobody listens is closed; the socket goes with the machine.
$VM --vsock /tmp/u --json /tmp/j -- vm-vsock listen 5000 > /tmp/seen & pid=$!
within 280 busybox grep -q listening /tmp/seen || fail "nobody listens: $(busybox cat /tmp/seen)"
is "$(echo x | vm-vsock connect /tmp/u 4999)" ""
echo hello > /tmp/said; busybox seq 20000 >> /tmp/said
vm-vsock connect /tmp/u 5000 < /tmp/said > /tmp/back
busybox grep -q '^OK 10737418[0-9]*$' /tmp/back || fail "no OK: $(busybox head -1 /tmp/back)"
is "$(busybox sed -n 2p /tmp/back)" HELLO
is "$(busybox tail -n +3 /tmp/back | busybox sha256sum)" "$(busybox seq 20000 | busybox sha256sum)"
wait $pid || fail "status $?"
[ -e /tmp/u ] && fail "the socket is left"
busybox grep -q '"vsock":"/tmp/u"' /tmp/j || fail "the grant is not in the report"
