# slow: more copies, and of two CPUs; pauses, differences, damaged files, a monitor that is killed meanwhile.
vm-snap /var/lib/ward /tpl 2 || fail "status $?"
vm-snap /var/lib/ward /tpl 1 2 || fail "status $? with two CPUs"
