# slow: a guest that does not come up in its time ends with a cause; what was started is gone.
$VM --boot-timeout 1s --json /tmp/j -- true 2> /tmp/err; is $? 125
cause setup-failed
busybox grep -q 'did not come up within 1 s' /tmp/err || fail "$(busybox cat /tmp/err)"
