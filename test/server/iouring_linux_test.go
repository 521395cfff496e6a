package server_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestIOUringRefused: in a process whose io_uring_setup a filter of system calls refuses, the
// server serves without it, and says why.
func TestIOUringRefused(t *testing.T) {
	if flag.Arg(0) == programArgument { // first: other code might probe the kernel
		code, err := strconv.Atoi(flag.Arg(1))
		if err != nil {
			t.Fatal(err)
		}
		testIOUringRefused(t, syscall.Errno(code))
		return
	}
	harness.OnEpoll(t)
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
		out, err := exec.Command(os.Args[0], "-test.run=^TestIOUringRefused$", programArgument, strconv.Itoa(int(errno))).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", errno, err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
	}
}

func testIOUringRefused(t *testing.T, errno syscall.Errno) {
	if err := refuseIOUring(errno); err != nil {
		t.Skipf("no filter of system calls: %v", err)
	}
	for _, value := range []sluice.IOUring{sluice.IOUringOn, sluice.IOUringAuto, sluice.IOUringOff} {
		s := &sluice.Server{Engine: sluice.EngineEpoll, IOUring: value, Handler: answering("x")}
		r := harness.Serve(t, harness.OverTCP(), s)
		if a := r.Dial().Get("/"); a.Body != "x" {
			t.Errorf("%v: answered %q", value, a.Body)
		}
		info := s.EngineInfo(r.Ln)
		if value == sluice.IOUringOn && (info.IOUringObstacle != "io_uring_setup: "+errno.Error() || !strings.Contains(info.String(), "; no io_uring: io_uring_setup: ")) {
			t.Errorf("%v: %+v", value, info)
		}
		if info.Engine != sluice.EngineEpoll || info.IOUring || value == sluice.IOUringOff && info.IOUringObstacle != "" {
			t.Errorf("%v: %+v", value, info)
		}
	}
}

// refuseIOUring has io_uring_setup fail in all threads of this process from now on.
func refuseIOUring(errno syscall.Errno) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_IO_URING_SETUP},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	r, _, call := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if call != 0 {
		return os.NewSyscallError("seccomp", call)
	}
	if r != 0 {
		return errors.New("a thread has another filter")
	}
	return nil
}

// TestIOUringStoppedClient: a client process that is stopped while answers are on their way
// gets all of them when it goes on, and others are answered meanwhile.
func TestIOUringStoppedClient(t *testing.T) {
	harness.OnEpoll(t)
	if flag.Arg(0) == programArgument {
		askManyTimes(t, flag.Arg(1))
		return
	}
	s := &sluice.Server{Engine: sluice.EngineEpoll, IOUring: sluice.IOUringOn, Handler: func(ctx *sluice.RequestCtx) {
		ctx.Write(ctx.Path())
	}}
	r := harness.Serve(t, harness.OverTCP(), s)
	if info := s.EngineInfo(nil); !info.IOUring {
		t.Skip(info)
	}
	client := exec.Command(os.Args[0], "-test.run=^TestIOUringStoppedClient$", programArgument, r.Ln.Addr().String())
	var out strings.Builder
	client.Stdout, client.Stderr = &out, &out
	reads, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer client.Process.Kill()
	harness.Eventually(t, "there is no room for more answers", func() bool {
		return slices.ContainsFunc(s.EngineStats().Loops, func(l sluice.LoopStats) bool { return l.Buffers > 0 })
	})
	_ = client.Process.Signal(syscall.SIGSTOP)
	for i := range 100 {
		if a := r.Dial().Get(fmt.Sprint("/", i)); a.Body != fmt.Sprint("/", i) {
			t.Errorf("another client got %q", a.Body)
		}
	}
	_ = reads.Close()
	_ = client.Process.Signal(syscall.SIGCONT)
	if err := client.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}

// askManyTimes sends numbered requests on two connections. It reads the answers, more than
// sockets hold, when its standard input has ended.
func askManyTimes(t *testing.T, addr string) {
	const requests = 60_000
	var reading sync.WaitGroup
	for range 2 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			for i := range requests {
				fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
			}
		}()
		reading.Go(func() {
			_, _ = os.Stdin.Read(make([]byte, 1))
			in := bufio.NewReader(c)
			for i := range requests {
				response, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(response.Body)
				if want := fmt.Sprint("/", i); err != nil || string(body) != want {
					t.Errorf("answer %d: %q, %v", i, body, err)
					return
				}
			}
		})
	}
	reading.Wait()
}
