package hold

import (
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// somePair returns both ends of a socket.
func somePair(t *testing.T) (ours, theirs *conn) {
	t.Helper()
	ours, file, err := newPair()
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = newConn(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.close()
		theirs.close()
	})
	return ours, theirs
}

// A frame arrives with all its files, however many they are. Neither end changes the flags of
// what they refer to.
func TestFrames(t *testing.T) {
	ours, theirs := somePair(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[1])
	file, err := Inherited(pipe[0], "pipe")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, n := range []int{0, 1, batch, batch + 1, 2 * batch, 2*batch + 1} {
		sent := frame{Kind: kindPut, Name: "name", Data: []byte(strings.Repeat("data", n)), Children: map[string]int{"0.1": 7}}
		for range n {
			sent.files = append(sent.files, file)
		}
		failed := make(chan error, 1)
		go func() { failed <- ours.send(sent) }()
		got, err := theirs.receive()
		if err := errors.Join(err, <-failed); err != nil {
			t.Fatalf("%d files: %v", n, err)
		}
		if len(got.files) != n {
			t.Errorf("%d of %d files", len(got.files), n)
		}
		for _, f := range got.files {
			if nonblocking, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || nonblocking&unix.O_NONBLOCK == 0 {
				t.Fatalf("the pipe has become blocking: %v", err)
			}
		}
		closeFiles(got.files)
		sent.files, got.files = nil, nil
		if len(sent.Data) == 0 {
			sent.Data = nil
		}
		if !reflect.DeepEqual(got, sent) {
			t.Errorf("%d files: %+v", n, got)
		}
	}
}

// Frames are bounded, and what is no frame is an error.
func TestFramesAreBounded(t *testing.T) {
	ours, theirs := somePair(t)
	if err := ours.send(frame{Data: make([]byte, maxPayload)}); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
	if err := ours.send(frame{files: make([]*os.File, maxFiles+1)}); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ bytes, want string }{
		{"\xff\xff\xff\xff\x00\x00\x00\x00", "a frame of 4294967295 bytes"},
		{"\x01\x00\x00\x00\xff\xff\x00\x00", "65535 files"},
		{"\x01\x00\x00\x00\x01\x00\x00\x00{", "0 of 1 descriptors"},
		{"\x01\x00\x00\x00\x00\x00\x00\x00{", "a frame: "},
	} {
		ours, theirs := somePair(t)
		if _, err := ours.socket.Write([]byte(c.bytes)); err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.receive(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.bytes, err, c.want)
		}
	}
	for _, part := range []string{"", "\x05", "\x05\x00\x00\x00\x00\x00\x00\x00{"} {
		ours, theirs := somePair(t)
		ours.socket.Write([]byte(part))
		ours.close()
		if _, err := theirs.receive(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", part, err)
		}
	}
	ours.close()
	if _, err := theirs.receive(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

// A socket of another kind is refused.
func TestNotTheHoldersSocket(t *testing.T) {
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newConn(null); err == nil {
		t.Error("/dev/null is a socket")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(pair[0])
	if _, err := Connect(pair[1]); !errors.Is(err, ErrGone) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a holder that is gone: %v", err)
	}
}

// answerAs plays a holder that has nothing, until the manager closes the socket. It returns the
// kinds of what it got.
func answerAs(c *conn, got, heard chan<- kind) {
	defer close(got)
	for {
		f, err := c.receive()
		if err != nil {
			return
		}
		closeFiles(f.files)
		if f.Kind == kindHeard { // at any time
			heard <- f.Kind
			continue
		}
		got <- f.Kind
		switch f.Kind {
		case kindConnect:
			c.send(frame{Kind: kindHeld, Name: "entry", Data: []byte("data")})
			c.send(frame{Kind: kindDrop}) // not expected
			c.send(frame{Kind: kindPreview, Manages: "binary"})
		case kindReady:
			c.send(frame{Kind: kindManage, Manages: "binary", Children: map[string]int{"0.1": 12}})
			c.send(frame{Kind: kindExited, Name: "0.1", Text: "exit status 3"})
			c.send(frame{Kind: kindExited, Name: "0.9"})
			c.send(frame{Kind: kindSignalled, Number: int(syscall.SIGHUP)})
			for range maxSignals {
				c.send(frame{Kind: kindSignalled, Number: int(syscall.SIGUSR1)})
			}
		case kindStart:
			c.send(frame{Kind: kindStarted, Seq: f.Seq, Name: f.Name, Number: 13})
		case kindProbe:
			c.send(frame{Kind: kindAnswer, Seq: f.Seq, Text: "no"})
		case kindReplace:
			c.close() // it dies
			return
		}
	}
}

// What a manager says and hears.
func TestManager(t *testing.T) {
	ours, file, err := newPair()
	if err != nil {
		t.Fatal(err)
	}
	got, heard := make(chan kind, 64), make(chan kind, 64)
	go answerAs(ours, got, heard)
	fd, err := duplicate(file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	m, err := Connect(fd)
	if err != nil {
		t.Fatal(err)
	}
	if m.Manages() != "binary" || string(m.Held().Entries["entry"].Data) != "data" || m.Held().IsManaged() {
		t.Errorf("%q, %+v", m.Manages(), m.Held())
	}
	m.Refuse(errors.New("not today"))
	if err := m.Manage(); err != nil {
		t.Fatal(err)
	}
	if how := m.Wait("0.1"); how != "exit status 3" || len(m.Held().Entries) != 0 || m.Held().Children["0.1"] != 12 {
		t.Errorf("%q, %+v", how, m.Held())
	}
	if s := <-m.Signals(); s != syscall.SIGHUP {
		t.Errorf("%v", s)
	}
	if pid, err := m.Start("1.1", supervise.Process{Args: []string{"x"}}); pid != 13 || err != nil {
		t.Errorf("%d, %v", pid, err)
	}
	if err := errors.Join(m.Put("x", nil), m.Drop("x"), m.Signal("1.1", syscall.SIGTERM), m.Forget("0.1"), m.Dismiss(), m.Yield(), m.Over(nil)); err != nil {
		t.Error(err)
	}
	if err := m.Probe("b"); err == nil || err.Error() != "no" {
		t.Errorf("%v", err)
	}
	<-heard // a signal is confirmed
	if err := m.Replace("b"); err == nil || err.Error() != ErrGone.Error() {
		t.Errorf("%v", err)
	}
	<-m.Gone()
	if how := m.Wait("1.1"); how != "" {
		t.Errorf("%q", how)
	}
	if err := m.Probe("b"); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	var kinds []kind
	for k := range got {
		kinds = append(kinds, k)
	}
	if n := len(heard); n > maxSignals {
		t.Errorf("%d signals more are confirmed", n)
	}
	want := []kind{kindConnect, kindRefuse, kindReady, kindStart, kindPut, kindDrop, kindSignal, kindForget, kindDismiss, kindYield, kindOver, kindProbe, kindReplace}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
}

// A holder that dies before it has sent everything is gone.
func TestHolderDiesEarly(t *testing.T) {
	ours, file, err := newPair()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		ours.receive()
		ours.send(frame{Kind: kindHeld, Name: "entry"})
		ours.close()
	}()
	fd, err := duplicate(file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if _, err := Connect(fd); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
}

// A frame arrives without its files if this process has no room for all of them, and so do the
// frames after it. No descriptor stays open. Sending files takes no descriptors.
func TestFramesWithoutRoom(t *testing.T) {
	ours, theirs := somePair(t)
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	receive := func(files int) frame {
		t.Helper()
		sent := frame{Kind: kindPut, Name: "name"}
		for range files {
			sent.files = append(sent.files, file)
		}
		failed := make(chan error, 1)
		go func() { failed <- ours.send(sent) }()
		got, err := theirs.receive()
		if err := errors.Join(err, <-failed); err != nil || got.Kind != kindPut || got.Name != "name" {
			t.Fatalf("%d files: %+v, %v", files, got, err)
		}
		closeFiles(got.files)
		return got
	}
	const free = 3
	for _, files := range []int{free, free + 1, batch, batch + 1, 2*batch + 1} {
		nettest.WithFree(t, 256, free, func() {
			if got := receive(files); got.files != nil || !errors.Is(got.lost, unix.EMFILE) || !strings.Contains(got.lost.Error(), "may have 256") {
				t.Errorf("%d files: %d have arrived: %v", files, len(got.files), got.lost)
			}
			const fits = free - 1 // one is needed to make a File
			if got := receive(fits); len(got.files) != fits || got.lost != nil {
				t.Errorf("after %d files: %d of %d: %v", files, len(got.files), fits, got.lost)
			}
		})
	}
}

// A manager that has no room for what is held says so to the holder, and does not manage.
func TestManagerWithoutRoom(t *testing.T) {
	ours, file, err := newPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.close()
	fd, err := duplicate(file)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	refused := make(chan frame, 1)
	go func() {
		ours.receive()
		ours.send(frame{Kind: kindHeld, Name: "small", files: []*os.File{file}})
		ours.send(frame{Kind: kindHeld, Name: "large", files: []*os.File{file, file, file, file}})
		ours.send(frame{Kind: kindHeld, Name: "another", files: []*os.File{file, file, file, file}})
		ours.send(frame{Kind: kindPreview})
		f, _ := ours.receive()
		refused <- f
	}()
	nettest.WithFree(t, 256, 3, func() { _, err = Connect(fd) })
	if !errors.Is(err, unix.EMFILE) || errors.Is(err, ErrGone) || !strings.Contains(err.Error(), `of "large"`) || strings.Contains(err.Error(), "another") {
		t.Errorf("%v", err)
	}
	if f := <-refused; f.Kind != kindRefuse || err == nil || f.Text != err.Error() {
		t.Errorf("%+v", f)
	}
}

// After half a frame the connection ends: what follows would be misread. If nothing was sent, it goes on.
func TestHalfFrames(t *testing.T) {
	ours, theirs := somePair(t)
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	closed, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, good := range []int{0, batch - 1, batch} {
		f := frame{Kind: kindPut}
		for range good {
			f.files = append(f.files, file)
		}
		f.files = append(f.files, closed)
		if err := ours.send(f); err == nil {
			t.Errorf("%d files before a closed one: it is sent", good)
		}
		err := ours.send(frame{Kind: kindDrop})
		theirs.socket.SetReadDeadline(time.Now().Add(patience))
		got, receiveErr := theirs.receive()
		if good < batch && (err != nil || receiveErr != nil || got.Kind != kindDrop) {
			t.Errorf("%d files before: the next frame is %+v, %v, %v", good, got, err, receiveErr)
		}
		if good == batch && (err == nil || !errors.Is(receiveErr, io.EOF)) {
			t.Errorf("%d files before: the connection goes on: %+v, %v, %v", good, got, err, receiveErr)
		}
	}
}

// Descriptors are sent when fewer of the user's are in flight. If they stay, only the frame is
// lost: the error is not that the holder has died.
func TestFramesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := somePair(t)
		file, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		m := &Manager{conn: ours, answers: make(map[int]chan frame)}
		nettest.WithFlight(t, 64, func(release func()) {
			err := m.Put("late", nil, file)
			if !errors.Is(err, unix.ETOOMANYREFS) || errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "may have 64") {
				t.Errorf("too many in flight: %v", err)
			}
			if _, err := m.Start("0.1", supervise.Process{}, file); !errors.Is(err, unix.ETOOMANYREFS) || len(m.answers) > 0 {
				t.Errorf("a start: %v, %d wait for an answer", err, len(m.answers))
			}
			time.AfterFunc(sendPatience/2, release)
			if err := m.Put("entry", []byte("data"), file); err != nil {
				t.Error(err)
			}
		})
		got, err := theirs.receive()
		if err != nil || got.Name != "entry" || len(got.files) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		closeFiles(got.files)
	})
}
