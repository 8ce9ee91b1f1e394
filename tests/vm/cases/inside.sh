# What a command sees: its own kernel, host name, root, a writable overlay of limited size; nothing of ours.
$VM --json /tmp/j -- sh -c 'hostname; uname -r; echo x > /new && cat /new; ls /ward 2>&1; ls / | wc -l; ps | wc -l' > /tmp/seen || fail "status $?"
id=$(busybox sed 's/.*"id":"\([a-z0-9]*\)".*/\1/' /tmp/j)
is "$(busybox head -1 /tmp/seen)" "$id"
busybox grep -q '^x$' /tmp/seen || fail "the root is not writable"
busybox grep -q 'ward: No such file' /tmp/seen || fail "sees what is outside: $(busybox cat /tmp/seen)"
[ -e /new ] && fail "wrote outside"
busybox grep -q '"cause":"exited"' /tmp/j || fail "cause: $(busybox cat /tmp/j)"
