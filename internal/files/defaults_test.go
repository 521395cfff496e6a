package files

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// limits are the numeric settings of a Store.
type limits struct {
	age, tick                    time.Duration
	memory, small                int64
	open                         int
	maxEncode, minEncode         int64
	gzip, brotli, zstd, identity string
}

func limitsOf(s *Store) limits {
	o := s.options
	return limits{time.Duration(s.age), s.tick, o.MemoryLimit, o.SmallFile, o.MaxOpen, o.MaxEncode, o.MinEncode,
		o.Suffixes[Gzip], o.Suffixes[Brotli], o.Suffixes[Zstd], o.Suffixes[Identity]}
}

func TestDefaults(t *testing.T) {
	usual := limits{age: 10 * time.Second, tick: 5 * time.Second, memory: 32 << 20, small: 24 << 10, open: 256, maxEncode: 8 << 20, minEncode: 256}
	for name, c := range map[string]struct {
		o      Options
		change func(*limits)
	}{
		"zero": {Options{}, func(*limits) {}},
		"below 0": {Options{CacheDuration: -1, MemoryLimit: -1, MaxOpen: -1, MaxEncode: -1, MinEncode: -1, SmallFile: -7}, func(l *limits) {
			l.small = -1
		}},
		"1": {Options{CacheDuration: 1, MemoryLimit: 1, MaxOpen: 1, MaxEncode: 1, MinEncode: 1, SmallFile: 1}, func(l *limits) {
			*l = limits{age: 1, tick: 10 * time.Millisecond, memory: 1, small: 0, open: 1, maxEncode: 1, minEncode: 1}
		}},
		"an fs.FS":                            {Options{FS: fstest.MapFS{}}, func(l *limits) { l.small = 64 << 10 }},
		"half of the memory for a small file": {Options{MemoryLimit: 1000, SmallFile: 501}, func(l *limits) { l.memory, l.small = 1000, 500 }},
		"as long as can be":                   {Options{CacheDuration: 1<<63 - 1}, func(l *limits) { l.age, l.tick = maxDuration, maxDuration/2 }},
		"a stop is looked for each second":    {Options{CleanStop: make(chan struct{})}, func(l *limits) { l.tick = time.Second }},
		"a short time and a stop":             {Options{CacheDuration: time.Second, CleanStop: make(chan struct{})}, func(l *limits) { l.age, l.tick = time.Second, time.Second/2 }},
		"suffixes": {Options{Suffixes: [Encodings]string{Identity: ".id", Gzip: "/gz", Brotli: "\\br", Zstd: ".zst"}}, func(l *limits) {
			l.zstd = ".zst"
		}},
		"suffix with NUL": {Options{Suffixes: [Encodings]string{Gzip: ".gz\x00"}}, func(*limits) {}},
	} {
		want := usual
		c.change(&want)
		if got := limitsOf(New(c.o)); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if maxDuration != 36500*24*time.Hour {
		t.Errorf("the longest time is %v", maxDuration)
	}
}

// As many files are encoded at the same time as there are processors. A Store does
// not change that number.
func TestEncodersAreProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(3)
	defer runtime.GOMAXPROCS(before)
	if s := New(Options{}); cap(s.encoders) != 3 || runtime.GOMAXPROCS(0) != 3 {
		t.Errorf("%d encoders, %d processors", cap(s.encoders), runtime.GOMAXPROCS(0))
	}
}

// A suffix with a separator is refused, because it would name a file in another
// folder.
func TestSuffixesStayInTheFolder(t *testing.T) {
	dir := t.TempDir()
	data := text("original", 5000)
	write(t, dir+"/root/file.txt", data)
	write(t, dir+"/copies/file.txt/x.gz", []byte("of another folder"))
	s := New(Options{Root: dir + "/root", CompressRoot: dir + "/copies", Suffixes: [Encodings]string{Gzip: "/x.gz"}})
	f := mustOpen(t, s, "file.txt", Gzip)
	defer f.Release()
	if f.encoding != Identity {
		data, _ := f.Bytes()
		t.Errorf("encoding %d: %q", f.encoding, data)
	}
}

// Names with a meaning on Windows only are ordinary names elsewhere, and in every
// fs.FS.
func TestNamesOfOtherSystems(t *testing.T) {
	const name = "a:b\\c. "
	wantServed(t, New(Options{FS: fstest.MapFS{name: {Data: []byte("fine")}}}), name, []byte("fine"))
	if runtime.GOOS == "windows" {
		return
	}
	dir := t.TempDir()
	write(t, dir+"/"+name, []byte("fine"))
	wantServed(t, New(Options{Root: dir}), name, []byte("fine"))
}

func TestLengthOfNames(t *testing.T) {
	s := New(Options{FS: fstest.MapFS{}})
	for length, want := range map[int]error{maxName: fs.ErrNotExist, maxName + 1: fs.ErrInvalid} {
		if _, err := s.Open([]byte(strings.Repeat("a", length)), Identity); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", length, err, want)
		}
	}
	if maxName != 4096 {
		t.Errorf("the limit is %d", maxName)
	}
}

func TestLetters(t *testing.T) {
	for c := range 256 {
		want := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if isLetter(byte(c)) != want {
			t.Errorf("isLetter(%q) = %v", rune(c), !want)
		}
	}
}

// The table contains the types that are worth encoding.
func TestEncodableTypes(t *testing.T) {
	for contentType := range encodableTypes {
		if !IsEncodable(contentType) || !IsEncodable(strings.ToUpper(contentType)+" ; a=b") {
			t.Errorf("%s is in the table and not encodable", contentType)
		}
	}
}
