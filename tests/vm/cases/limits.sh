# The end of its time, whether the guest is up by then or not.
$VM --timeout 15s --json /tmp/j -- sleep 1000; is $? 124
cause time-limit
