# slow: nothing in the monitor's filters is there for nobody: guests that use all devices, and a snapshot, make every call on the list.
t=/sys/kernel/tracing; busybox mountpoint -q $t || busybox mount -t tracefs t $t
echo 16384 > $t/buffer_size_kb
echo 'comm == "ward" || comm == "vm-snap"' > $t/events/raw_syscalls/sys_enter/filter
echo 1 > $t/events/raw_syscalls/sys_enter/enable
busybox tunctl -t ctap > /dev/null && busybox ifconfig ctap 10.79.0.1 netmask 255.255.255.0 up || fail "making a tap"
$VM --tap ctap --tap-addr 10.79.0.2/24 --io-rate 4M:2000 --vsock /tmp/cu -- sh -c 'ping -c 2 10.79.0.1 > /dev/null; vm-vsock listen 5000' > /tmp/seen 2>&1 & pid=$!
within 200 busybox grep -q listening /tmp/seen || fail "nobody listens: $(busybox cat /tmp/seen)"
echo hello | vm-vsock connect /tmp/cu 5000 > /tmp/back
wait $pid || fail "status $?"
vm-snap /var/lib/ward /tpl 1 > /tmp/said || fail "$(busybox tail -1 /tmp/said)"
echo 0 > $t/events/raw_syscalls/sys_enter/enable
# Of each thread, from its filter (317) on.
awk '{ for (i = 2; i < NF && $i != "NR"; i++); nr = $(i + 1); if ($1 in guarded) made[nr] = 1; if (nr == 317) guarded[$1] = 1 } END { for (nr in made) print nr }' $t/trace |
	busybox sort -n > /tmp/made
busybox tunctl -d ctap > /dev/null
name() { # x86-64's
	case $1 in 0) echo read ;; 1) echo write ;; 3) echo close ;; 8) echo lseek ;; 9) echo mmap ;; 11) echo munmap ;; 12) echo brk ;; 14) echo rt_sigprocmask ;;
	15) echo rt_sigreturn ;; 16) echo ioctl ;; 17) echo pread64 ;; 19) echo readv ;; 20) echo writev ;; 25) echo mremap ;; 28) echo madvise ;; 44) echo sendto ;;
	45) echo recvfrom ;; 46) echo sendmsg ;; 47) echo recvmsg ;; 48) echo shutdown ;; 60) echo exit ;; 200) echo tkill ;; 202) echo futex ;;
	219) echo restart_syscall ;; 228) echo clock_gettime ;; 231) echo exit_group ;; 233) echo epoll_ctl ;; 281) echo epoll_pwait ;; 286) echo timerfd_settime ;;
	288) echo accept4 ;; 295) echo preadv ;; 318) echo getrandom ;; *) echo "call $1" ;; esac
}
busybox grep -q . /tmp/made || fail "nothing was seen"
for nr in $(busybox cat /tmp/made); do case "$(name $nr)" in call*) fail "$(name $nr) is not on this list" ;; esac; done
# What is there beside these is the allocator's, an older kernel's, or a clock's that is asked the slow way.
for nr in 0 1 3 8 9 11 14 15 16 17 19 20 44 45 46 47 48 200 202 231 233 281 286 288 295 318; do
	busybox grep -qx $nr /tmp/made || fail "nobody makes $(name $nr)"
done
