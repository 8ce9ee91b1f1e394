# The end of its time. It began before: the guest has to come up within it.
$VM --timeout 60s --json /tmp/j -- sleep 1000; is $? 124
cause time-limit
