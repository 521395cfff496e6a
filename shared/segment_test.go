package shared

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		options Options
		isGood  bool
	}{
		{Options{Local: true}, true},
		{Options{Size: 1 << 20, Processes: 8, Local: true}, true},
		{Options{Size: minSize - 1, Processes: 1, Local: true}, false},
		{Options{Size: 100 << 10, Processes: 100, Local: true}, false},
		{Options{Processes: -1, Local: true}, false},
		{Options{Processes: MaxProcesses + 1, Local: true}, false},
		{Options{Processes: MaxProcesses, Local: true}, true},
		{Options{Size: maxSize + 1, Local: true}, false},
	} {
		s, err := New(c.options)
		if (err == nil) != c.isGood || (!c.isGood && !errors.Is(err, ErrOption)) {
			t.Errorf("%+v: %v", c.options, err)
		}
		if err == nil && (s.IsShared() || s.File() != nil) {
			t.Errorf("%+v: is not local", c.options)
		}
	}
}

// TestSecretsAreSecret: nothing that a segment returns reveals the secrets of its
// hashes.
func TestSecretsAreSecret(t *testing.T) {
	seen := map[uint64]bool{}
	for range 10 {
		s := newShared(t, 4)
		random := []uint64{s.words[headerID].Load()}
		for i := range s.hasher {
			random = append(random, s.words[headerSecrets+i].Load())
		}
		for _, word := range random {
			if seen[word] {
				t.Errorf("a random word occurs twice: %x", random)
			}
			seen[word] = true
		}
	}
}

func TestFileIsSealed(t *testing.T) {
	s := newShared(t, 4)
	size, free := s.Size()
	if size != sharedSize || free <= 0 || free >= size {
		t.Errorf("size %d, free %d", size, free)
	}
	if canSeal && s.File().Truncate(1<<20) == nil {
		t.Error("the file can be shrunk")
	}
	if canSeal && s.File().Truncate(64<<20) == nil {
		t.Error("the file can grow")
	}
}

func TestAttachRefuses(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": {}, "short": make([]byte, 100), "zeros": make([]byte, 1<<20),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := Attach(file); err == nil || (canShare && !errors.Is(err, ErrCorrupt)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTooManyProcesses(t *testing.T) {
	s := newShared(t, 2)
	second, err := Attach(s.File())
	if err != nil {
		t.Fatal(err)
	}
	if second.File() != s.File() {
		t.Error("the file of an attached segment is not that of Attach")
	}
	if _, err := Attach(s.File()); !errors.Is(err, ErrProcesses) {
		t.Fatalf("third of two: %v", err)
	}
	second.laneWord(second.lane, lanePID).Store(999_999_999)
	s.Reap(999_999_999)
	if third, err := Attach(s.File()); err != nil || third.lane != second.lane || third.token == second.token {
		t.Fatalf("after the second was reaped: %v", err)
	}
}

func TestReapOfStrangers(t *testing.T) {
	s := newLocal(t)
	lease := Must(s.Lease("lease", 0))
	lease.TryAcquire()
	other := attachAgain(t, s, 999_999_999)
	other.Page().Set(Accepted, 10)
	s.Reap(999_999_999) // its connections are lost
	epoch := s.laneWord(other.lane, laneEpoch).Load()
	for _, pid := range []int{0, -1, os.Getpid() + 1, 999_999_999} {
		s.Reap(pid)
	}
	if !lease.Held() {
		t.Error("reaping others took the lease")
	}
	if _, done, _ := s.Total(); done != 0 || s.laneWord(other.lane, laneEpoch).Load() != epoch {
		t.Errorf("a free place was reaped: %d connections are done", done)
	}
	first := attachAgain(t, s, 1) // as in a container
	s.Reap(1)
	if s.isAlive(first.token) {
		t.Error("process 1 was not reaped")
	}
}

func TestDirectory(t *testing.T) {
	s := newLocal(t)
	long := string(make([]byte, MaxName))
	for _, c := range []struct {
		name string
		open func() error
		want error
	}{
		{"new", func() error { _, err := s.Counter("a"); return err }, nil},
		{"again", func() error { _, err := s.Counter("a"); return err }, nil},
		{"as another type", func() error { _, err := s.Gauge("a"); return err }, ErrMismatch},
		{"longest name", func() error { _, err := s.Counter(long); return err }, nil},
		{"longer name", func() error { _, err := s.Counter(long + "a"); return err }, ErrName},
		{"no name", func() error { _, err := s.Counter(""); return err }, ErrName},
		{"config", func() error { _, err := s.Config("c", 100); return err }, nil},
		{"another size, as long", func() error { _, err := s.Config("c", 101); return err }, ErrMismatch},
		{"another size", func() error { _, err := s.Config("c", 1000); return err }, ErrMismatch},
		{"too large", func() error { _, err := s.Config("d", 100<<20); return err }, ErrFull},
		{"after that", func() error { _, err := s.Config("d", 100); return err }, nil},
	} {
		if err := c.open(); !errors.Is(err, c.want) || (c.want == nil && err != nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	var names []string
	for _, e := range s.Entries() {
		names = append(names, e.Type+" "+e.Name)
	}
	if want := []string{"Counter a", "Counter " + long, "Config c", "Config d"}; !slices.Equal(names, want) {
		t.Errorf("entries %q, want %q", names, want)
	}
}

func TestDirectoryIsFull(t *testing.T) {
	s := Must(New(Options{Size: 256 << 10, Processes: 1, Local: true}))
	var err error
	made := 0
	for ; err == nil && made <= 1000; made++ {
		_, err = s.Flag(string(rune('a' + made)))
	}
	if !errors.Is(err, ErrFull) || made != s.layout.entries+1 {
		t.Errorf("%v after %d of %d", err, made, s.layout.entries)
	}
}

// Each word of the header and of an entry that would point outside the segment is
// checked before it is used.
func TestDamage(t *testing.T) {
	s := Must(New(Options{Size: 256 << 10, Processes: 2, Local: true}))
	_, _ = Must(s.Counter("a")), Must(s.Flag("b"))
	flag, size := s.layout.dirAt+entryWords, uint64(s.layout.size)
	for _, c := range []struct {
		name  string
		at    int
		value uint64
	}{
		{"magic", headerMagic, 0}, {"version", headerVersion, 2},
		{"larger", headerSize, size + pageWords}, {"smaller", headerSize, size - pageWords},
		{"no processes", headerLanes, 0}, {"many processes", headerLanes, MaxProcesses}, {"too many", headerLanes, 1 << 63},
		{"no entries", headerEntries, 0}, {"many entries", headerEntries, maxEntries}, {"too many entries", headerEntries, 1 << 63},
		{"entry in the header", flag + entryOffset, 0}, {"in the directory", flag + entryOffset, uint64(s.layout.data - lineWords)},
		{"behind the end", flag + entryOffset, size}, {"far behind it", flag + entryOffset, 1<<64 - lineWords},
		{"over the end", flag + entryLength, size - lineWords}, {"far over it", flag + entryLength, 1<<64 - lineWords},
		{"no length", flag + entryLength, 0}, {"odd length", flag + entryLength, 9}, {"odd offset", flag + entryOffset, uint64(s.layout.data + 1)},
		{"long name", flag + entryNameLength, MaxName + 1},
		{"short counter", s.layout.dirAt + entryLength, lineWords},
	} {
		words := heapWords(s.layout.size)
		for i := range words {
			words[i].Store(s.words[i].Load())
		}
		words[c.at].Store(c.value)
		if _, err := attachWords(words); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: attached, %v", c.name, err)
		}
		// The same, damaged after the process has attached.
		before := s.words[c.at].Load()
		s.words[c.at].Store(c.value)
		if _, err := s.Flag("c"); c.at > headerWords && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: found, %v", c.name, err)
		}
		s.Entries()
		s.words[c.at].Store(before)
	}
	for _, next := range []uint64{0, 1, size + lineWords, 1 << 63, uint64(s.layout.data + 1)} {
		s.words[headerNext].Store(next)
		if _, err := s.Flag("d"); !errors.Is(err, ErrCorrupt) {
			t.Errorf("data ends at %d: %v", next, err)
		}
	}
}

// A value of another version or of an unknown type is ignored.
func TestOtherVersion(t *testing.T) {
	s := newLocal(t)
	Must(s.Counter("a")).Add(7)
	s.entryWords(0)[entryKind].Store(uint64(kindCounter) | 99<<8)
	if n := Must(s.Counter("a")).Value(); n != 0 {
		t.Errorf("a value of another layout was read as %d", n)
	}
	for i, unknown := range []uint64{0, 1 << 8, uint64(kindEnd), uint64(kindEnd) | 1<<8, 200 | 1<<8, 255 | 1<<8} {
		Must(s.Flag("b")).Set(true)
		s.entryWords(2 + i)[entryKind].Store(unknown)
		if Must(s.Flag("b")).IsOn() {
			t.Errorf("kind %#x: a new flag is on", unknown)
		}
	}
	if all := s.Entries(); len(all) != 2 {
		t.Errorf("entries %v, want one counter and one flag", all)
	}
	if _, err := attachWords(s.words); err != nil {
		t.Error(err)
	}
}

// A process that dies while it creates a value only wastes memory, at whichever word
// it stopped: the name stays free, and processes can attach.
func TestHalfMadeEntry(t *testing.T) {
	for written := range entryWords {
		s := newLocal(t)
		_ = Must(s.Flag("before"))
		done := s.entryWords(0)
		half := s.entryWords(1)
		for i := 1; i <= written && i < entryWords; i++ {
			half[i].Store(done[i].Load())
		}
		s.words[headerNext].Add(lineWords)
		again, err := attachWords(s.words)
		if err != nil {
			t.Errorf("with %d words written: %v", written, err)
			continue
		}
		if n := len(again.Entries()); n != 1 {
			t.Errorf("with %d words written there are %d entries", written, n)
		}
		Must(again.Flag("after")).Set(true)
		if Must(again.Flag("before")).IsOn() || !Must(s.Flag("after")).IsOn() || len(s.Entries()) != 2 {
			t.Errorf("with %d words written: %v", written, s.Entries())
		}
	}
}

// directoryRole creates the same values as other processes at the same time.
func directoryRole(s *Segment, in *bufio.Scanner) {
	say("ready")
	hear(in)
	for i := range 200 {
		Must(s.Counter(string(rune('a' + i)))).Inc()
	}
	say("done")
}

func TestConcurrentCreation(t *testing.T) {
	s := newShared(t, 8)
	workers := startProcesses(t, s, "directory", 4)
	for _, w := range workers {
		w.send("go")
	}
	for _, w := range workers {
		w.expect("done")
	}
	if n := len(s.Entries()); n != 200 {
		t.Fatalf("%d entries", n)
	}
	end := s.layout.data
	for e := range s.readyEntries() {
		if e.offset < end {
			t.Errorf("%q overlaps what is before it", e.name())
		}
		end = e.offset + e.length
		if n := Must(s.Counter(e.name())).Value(); n != 4 {
			t.Errorf("%q is %d", e.name(), n)
		}
	}
}

// The directory's lock can be taken over from a dead process, not from a living one.
func TestDirectoryLock(t *testing.T) {
	s := newLocal(t)
	other := attachAgain(t, s, 999_999_999)
	if _, isLocked := other.lock(&s.words[headerLock]); !isLocked {
		t.Fatal("a free lock was not had")
	}
	s.lockWait = 0
	if _, err := s.Counter("a"); !errors.Is(err, ErrBusy) {
		t.Fatalf("with the lock held: %v", err)
	}
	s.Reap(999_999_999)
	if _, err := s.Counter("a"); err != nil {
		t.Fatalf("with its holder dead: %v", err)
	}
	other.unlock(&s.words[headerLock]) // it does not own the lock any more
	if s.words[headerLock].Load() != 0 {
		t.Error("the lock was not given back")
	}
}

func inheritRole(s *Segment, _ *bufio.Scanner) {
	if s.IsShared() && s.File() == nil {
		Must(s.Counter("inherited")).Inc()
	}
	again, err := Adopt(os.NewFile(4, "segment"))
	if again != s || err != nil {
		panic(err)
	}
	if other, err := Setup(Options{Size: 1 << 20}); other != s || err != nil {
		panic("Setup made another one")
	}
	say("done")
}

// Default finds the master's segment by itself.
func TestInherited(t *testing.T) {
	s := newShared(t, 4)
	w := startProcess(t, s, "inherit")
	w.expect("done")
	if n := Must(s.Counter("inherited")).Value(); n != 1 {
		t.Errorf("the counter is %d", n)
	}
	inUse := 0
	for lane := range s.layout.lanes {
		if s.laneWord(lane, lanePID).Load() != 0 {
			inUse++
		}
	}
	if inUse != 2 {
		t.Errorf("%d processes are attached, want 2", inUse)
	}
}

func TestDefault(t *testing.T) {
	defer SetDefault(nil)
	SetDefault(nil)
	first := Default()
	if Default() != first || first.IsShared() != canShare {
		t.Error("the default changes, or is not shared")
	}
	if s, err := Setup(Options{Size: 1}); s != first || err != nil {
		t.Errorf("Setup after Default: %v", err)
	}
	SetDefault(nil)
	if _, err := Setup(Options{Size: 1}); !errors.Is(err, ErrOption) {
		t.Errorf("Setup of a bad size: %v", err)
	}
	own := Must(Setup(Options{Size: 1 << 20, Processes: 4}))
	if size, _ := Default().Size(); size != 1<<20 {
		t.Errorf("Setup made %d bytes", size)
	}
	other := newShared(t, 4)
	if s, err := Adopt(other.File()); !errors.Is(err, ErrLate) || s == own || Default() != s || !s.isIn(other.File()) {
		t.Errorf("Adopt after another default: %v", err)
	}
	if now, err := Adopt(Must(os.Open(os.DevNull))); err == nil || now != nil || Default() == own {
		t.Errorf("Adopt of a file that is no segment: %v", err)
	}
	full := newShared(t, 1) // there is no second place, and none is needed
	SetDefault(full)
	if s, err := Adopt(full.File()); s != full || err != nil {
		t.Errorf("Adopt of the default: %v", err)
	}
}

// A process waits for a place while another one still has the last one.
func TestAdoptAwaitsPlace(t *testing.T) {
	defer SetDefault(nil)
	SetDefault(nil)
	full := newShared(t, 1)
	adopted := make(chan error, 1)
	go func() {
		_, err := Adopt(full.File())
		adopted <- err
	}()
	select {
	case err := <-adopted:
		t.Fatalf("there was no place: %v", err)
	case <-time.After(3 * placePause):
	}
	full.Reap(os.Getpid())
	if err := <-adopted; err != nil || !Default().isIn(full.File()) {
		t.Errorf("Adopt: %v", err)
	}
}

// The parts of a segment follow each other. Pages begin at the first whole page after
// the lanes. Any other position would be another layout, which other versions of the
// program would misread.
func TestLayout(t *testing.T) {
	for _, c := range []struct{ lanes, pageAt int }{
		{1, 1}, {(pageWords - headerWords) / laneWords, 1}, {(pageWords-headerWords)/laneWords + 1, 2}, {(2*pageWords - headerWords) / laneWords, 2},
	} {
		l := newLayout(1<<20, c.lanes, 10)
		if l.laneAt != headerWords || l.pageAt != c.pageAt*pageWords || l.dirAt != l.pageAt+c.lanes*pageWords || l.data != l.dirAt+10*entryWords {
			t.Errorf("%d lanes: %+v", c.lanes, l)
		}
	}
}
