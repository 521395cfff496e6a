package shared

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestFlag(t *testing.T) {
	s := newLocal(t)
	flag, again := Must(s.Flag("flag")), Must(s.Flag("flag"))
	for _, isOn := range []bool{false, true, true, false} {
		flag.Set(isOn)
		if again.IsOn() != isOn {
			t.Errorf("set to %v, is %v", isOn, again.IsOn())
		}
	}
}

func TestConfig(t *testing.T) {
	s := newLocal(t)
	other := attachAgain(t, s, 999_999_999)
	c, theirs := Must(s.Config("config", 20)), Must(other.Config("config", 20))
	if data, version := c.Load([]byte("x")); string(data) != "x" || version != 0 {
		t.Errorf("new: %q of version %d", data, version)
	}
	for i, text := range []string{"one", "", "a text that is long", "exactly 20 bytes, so"} {
		if err := c.Store([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if data, version := theirs.Load([]byte("x")); string(data) != "x"+text || version != uint64(i+1) || c.Version() != version {
			t.Errorf("stored %q: %q of version %d", text, data, version)
		}
	}
	if err := c.Store(make([]byte, 21)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("21 bytes: %v", err)
	}
	// Another process dies during Store.
	if _, isLocked := other.lock(&theirs.words[configLock]); !isLocked {
		t.Fatal("the config was locked")
	}
	theirs.bufferOf(5)[0].Store(1 << 40)
	s.lockWait = 0
	if err := c.Store([]byte("busy")); !errors.Is(err, ErrBusy) {
		t.Errorf("beside another: %v", err)
	}
	s.Reap(999_999_999)
	if data, version := c.Load(nil); string(data) != "exactly 20 bytes, so" || version != 4 {
		t.Errorf("after that: %q of version %d", data, version)
	}
	if err := c.Store([]byte("next")); err != nil {
		t.Error(err)
	}
	one := Must(s.Config("one byte", 1))
	if err := one.Store([]byte("x")); err != nil {
		t.Error(err)
	}
	for _, size := range []int{0, -1, configMaxSize + 1} {
		if _, err := s.Config("bad", size); !errors.Is(err, ErrOption) {
			t.Errorf("of %d bytes: %v", size, err)
		}
	}
}

// A reader always gets one complete version. The data is so long that others store
// twice during a read.
func TestConfigIsWhole(t *testing.T) {
	s := newLocal(t)
	const longest = 20_000
	var isOver atomic.Bool
	var all sync.WaitGroup
	for i := range 2 {
		other := attachAgain(t, s, 999_999_000+i)
		other.lockWait = time.Minute // on a busy machine the lock's owner may not run for a while
		writer := Must(other.Config("config", longest))
		all.Go(func() {
			for n := 0; !isOver.Load(); n++ {
				length := 1 + n%4
				if n%3 == 0 {
					length = longest - n%9
				}
				if err := writer.Store(bytes.Repeat([]byte{byte(n)}, length)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	c := Must(s.Config("config", longest))
	last := uint64(0)
	var data []byte
	for c.Version() < 2000 {
		var version uint64
		data, version = c.Load(data[:0])
		if version < last {
			t.Errorf("version %d after %d", version, last)
			break
		}
		last = version
		if len(data) > 0 && bytes.Count(data, data[:1]) != len(data) {
			t.Error("mixed")
			break
		}
	}
	isOver.Store(true)
	all.Wait()
}
