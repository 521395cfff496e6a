package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// isOneVersion reports whether data is the beginning of one version. A version repeats
// its number.
func isOneVersion(data []byte) bool {
	seed, _, ok := bytes.Cut(data, []byte(" "))
	if !ok {
		return true // cut within the number, or empty
	}
	return bytes.Equal(data, text(string(seed), len(data)))
}

// mutate replaces, truncates and removes files until stop says so.
func mutate(t *testing.T, dir string, names []string, stop *atomic.Bool) {
	random := rand.New(rand.NewPCG(1, 2))
	for version := 1; !stop.Load(); version++ {
		name := dir + "/" + names[random.IntN(len(names))]
		switch size := 2000; random.IntN(4) {
		case 0:
			_ = os.Remove(name) // it may not exist
		case 1:
			if info, err := os.Stat(name); err == nil && info.Size() > 0 {
				_ = os.Truncate(name, random.Int64N(info.Size())) // no other goroutine removes it
			}
		case 2:
			size *= 50
			fallthrough
		default:
			replace(t, name, text(fmt.Sprint("v", version), size+random.IntN(size)), longAgo().Add(time.Duration(version)*time.Second))
		}
		time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
	}
}

// readOnce opens a file and checks its content.
func readOnce(t *testing.T, s *Store, name string, e Encoding, size int64) (served bool) {
	f, err := s.Open([]byte(name), e)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		return false
	}
	data, inMemory := f.Bytes()
	if !inMemory {
		p, err := f.Part(0, min(f.Size(), size))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return false
		}
		f.Release()
		data, err = io.ReadAll(p)
		p.Close()
		if err != nil && err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %v", name, err)
		}
		if f.encoding != Identity {
			return err == nil // truncated, or from an older copy
		}
	} else {
		if int64(len(data)) != f.Size() {
			t.Errorf("%s: %d bytes of %d", name, len(data), f.Size())
		}
		f.Release()
	}
	if e := f.encoding; e != Identity {
		data = decode(t, data, e)
	}
	if !isOneVersion(data) {
		t.Errorf("%s as %d, in memory %v: %d bytes are of no version: %.60q", name, f.encoding, inMemory, len(data), data)
	}
	return true
}

func TestFilesChangeWhileServed(t *testing.T) {
	for what, o := range map[string]Options{
		"cached":   {CacheDuration: time.Millisecond, MaxOpen: 2, MemoryLimit: 20_000, SmallFile: 5000},
		"long":     {CacheDuration: 50 * time.Millisecond},
		"uncached": {SkipCache: true},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			o.Root, o.Suffixes = dir, suffixes()
			s := New(o)
			names := []string{"a.txt", "b.txt", "c.txt", "sub/d.txt"}
			for _, name := range names {
				write(t, dir+"/"+name, text("v0", 3000))
			}
			var stop atomic.Bool
			var served atomic.Int64
			var readers, mutator sync.WaitGroup
			mutator.Go(func() { mutate(t, dir, names, &stop) })
			for i := range 4 {
				readers.Go(func() {
					random := rand.New(rand.NewPCG(uint64(i), 7))
					for range 200 {
						name := names[random.IntN(len(names))]
						if readOnce(t, s, name, Encoding(random.IntN(int(Encodings))), random.Int64N(150_000)) {
							served.Add(1)
						}
						if random.IntN(50) == 0 {
							_, _, _ = s.ReadDir(nil, 10) // it must not panic
						}
					}
				})
			}
			readers.Wait()
			stop.Store(true)
			mutator.Wait()
			if served.Load() < 50 {
				t.Errorf("only %d files were there", served.Load())
			}
			checkCounts(t, s)
			noTemporaries(t, dir)
			s.dropAll()
			s.root.closeUnused(1 << 62)
			if n := openDescriptors(t, dir); n != 0 {
				t.Errorf("%d descriptors are left", n)
			}
		})
	}
}

// The root is replaced and handles are closed while files are opened.
func TestRootIsSwappedWhileServed(t *testing.T) {
	base := t.TempDir()
	write(t, base+"/v1/file.txt", text("v1", 3000))
	write(t, base+"/v2/file.txt", text("v2", 3000))
	write(t, base+"/v1/large.txt", text("v1", 100_000))
	write(t, base+"/v2/large.txt", text("v2", 100_000))
	symlink(t, "v1", base+"/current")
	s := New(Options{Root: base + "/current", CacheDuration: 100 * time.Microsecond})
	var stop atomic.Bool
	var swapper, readers sync.WaitGroup
	swapper.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if os.Symlink(fmt.Sprint("v", 1+i%2), base+"/next") != nil || os.Rename(base+"/next", base+"/current") != nil {
				t.Error("cannot swap")
				return
			}
			s.sweep()
		}
	})
	for range 4 {
		readers.Go(func() {
			for i := range 200 {
				if !readOnce(t, s, []string{"file.txt", "large.txt"}[i%2], Identity, 1<<30) && t.Failed() {
					return
				}
			}
		})
	}
	readers.Wait()
	stop.Store(true)
	swapper.Wait()
	checkCounts(t, s)
	eventually(t, "all is closed", func() bool { return openDescriptors(t, base) == 0 })
}
