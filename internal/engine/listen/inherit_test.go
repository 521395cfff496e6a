package listen

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// childVariable makes the test binary play the child of TestInheritByChild.
const childVariable = "SLUICE_LISTEN_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := serveOnce(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveOnce answers one connection of the listener inherited as descriptor 3.
func serveOnce() error {
	ln, err := FromDescriptor(3)
	if err != nil {
		return err
	}
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.WriteString(c, "from the child")
	return err
}

func skipWithoutListenerFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not hand sockets over by descriptor")
	}
}

func TestInheritInProcess(t *testing.T) {
	skipWithoutListenerFiles(t)
	original := listenLoopback(t, Options{})
	f, err := File(original)
	if err != nil {
		t.Fatal(err)
	}
	heir, err := FromFile(f)
	if err != nil {
		t.Fatal(err)
	}
	defer heir.Close()
	if f.Close() == nil {
		t.Error("FromFile left the file open")
	}
	original.Close()
	if heir.Addr().String() != original.Addr().String() {
		t.Errorf("address %v became %v", original.Addr(), heir.Addr())
	}
	if got := exchange(t, heir); got != "hello" {
		t.Errorf("read %q", got)
	}
}

func TestInheritByChild(t *testing.T) {
	skipWithoutListenerFiles(t)
	ln := listenLoopback(t, Options{})
	f, err := File(ln)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), executable)
	child.Env = append(os.Environ(), childVariable+"=1")
	child.ExtraFiles = []*os.File{f}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "from the child" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

func TestFileOfListenerWithoutDescriptor(t *testing.T) {
	wrapped := struct{ net.Listener }{listenLoopback(t, Options{})}
	if _, err := File(wrapped); !errors.Is(err, errNoDescriptor) {
		t.Errorf("err %v", err)
	}
}

func TestFromFileOfSomethingElse(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if ln, err := FromFile(f); err == nil {
		ln.Close()
		t.Error("a listener was made of the null device")
	}
	if f.Close() == nil {
		t.Error("FromFile left the file open after an error")
	}
}
