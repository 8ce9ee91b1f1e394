# What a command sees: its own kernel, host name, root, a writable overlay of limited size; nothing of ours.
$VM --json /tmp/j --disk 8M -- sh -c 'hostname; echo x > /new && cat /new; ls /ward 2>&1; dd if=/dev/zero of=/f bs=1M count=20 2>/dev/null; wc -c < /f' > /tmp/seen || fail "status $?"
id=$(busybox sed 's/.*"id":"\([a-z0-9]*\)".*/\1/' /tmp/j)
is "$(busybox head -1 /tmp/seen)" "$id"
busybox grep -q '^x$' /tmp/seen || fail "the root is not writable"
busybox grep -q 'ward: No such file' /tmp/seen || fail "sees what is outside: $(busybox cat /tmp/seen)"
size=$(busybox tail -1 /tmp/seen)
[ "$size" -gt 7000000 ] && [ "$size" -le 8388608 ] || fail "the disk took $size bytes"
[ -e /new ] && fail "wrote outside"
cause exited
