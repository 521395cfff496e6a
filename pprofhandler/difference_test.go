package pprofhandler

import (
	"bytes"
	"encoding/binary"
	"runtime/pprof"
	"testing"
	"time"
)

func goroutineProfile(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&out, 0); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// census is what the test wants to know of a profile.
type census struct {
	total     int64
	samples   int
	hasZero   bool
	duration  uint64
	functions map[string]int64 // by the name of a function, the sum of its samples
}

// numbers returns the numbers of a repeated field.
func numbers(t *testing.T, f field) (all []uint64) {
	t.Helper()
	if err := f.eachNumber(func(v uint64) uint64 { all = append(all, v); return v }); err != nil {
		t.Fatal(err)
	}
	return all
}

// parts collects the fields of a message by their numbers.
func parts(t *testing.T, message []byte) map[uint64][]field {
	t.Helper()
	all := map[uint64][]field{}
	if err := eachField(message, func(f field) error { all[f.number] = append(all[f.number], f); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// count reads a profile. Every number in it must lead somewhere, and once only.
func count(t *testing.T, profile []byte) census {
	t.Helper()
	message, err := unpacked(profile)
	if err != nil {
		t.Fatal(err)
	}
	all := parts(t, message)
	c := census{samples: len(all[profileSample]), functions: map[string]int64{}}
	if d := all[profileDuration]; len(d) == 1 {
		c.duration = d[0].value
	}
	functions, locations := map[uint64]string{}, map[uint64][]string{}
	for _, f := range all[profileFunction] {
		p := parts(t, f.bytes)
		if functions[p[1][0].value] != "" {
			t.Errorf("function %d is there twice", p[1][0].value)
		}
		functions[p[1][0].value] = string(all[profileString][p[2][0].value].bytes)
	}
	for _, f := range all[profileLocation] {
		p := parts(t, f.bytes)
		for _, line := range p[locationLine] {
			name := functions[parts(t, line.bytes)[1][0].value]
			if name == "" {
				t.Error("a line of no function")
			}
			locations[p[1][0].value] = append(locations[p[1][0].value], name)
		}
	}
	for _, f := range all[profileSample] {
		p := parts(t, f.bytes)
		value := int64(numbers(t, p[sampleValue][0])[0])
		c.total += value
		c.hasZero = c.hasZero || value == 0
		for _, list := range p[sampleLocation] {
			for _, id := range numbers(t, list) {
				if locations[id] == nil {
					t.Errorf("no location %d", id)
				}
				for _, name := range locations[id] {
					c.functions[name] += value
				}
			}
		}
	}
	return c
}

// waiting is found in profiles by its name.
//
//go:noinline
func waiting(started, end chan struct{}) {
	started <- struct{}{}
	<-end
}

func TestDifference(t *testing.T) {
	const name = "github.com/sluicehttp/sluice/pprofhandler.waiting"
	before := goroutineProfile(t)
	started, end := make(chan struct{}), make(chan struct{})
	for range 7 {
		go waiting(started, end)
		<-started
	}
	after := goroutineProfile(t)
	close(end)
	for _, test := range []struct {
		from, to []byte
		want     int64
	}{{before, after, 7}, {after, before, -7}, {after, after, 0}} {
		got, err := difference(test.from, test.to, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		a, b, c := count(t, test.from), count(t, test.to), count(t, got)
		if c.total != b.total-a.total || c.samples > a.samples+b.samples || c.hasZero || c.duration != uint64(time.Second) {
			t.Errorf("%+v less %+v is %+v", b, a, c)
		}
		if _, ok := c.functions[name]; ok != (test.want != 0) || len(test.from) == len(test.to) && &test.from[0] == &test.to[0] && c.samples > 0 {
			t.Errorf("samples that did not change are left: %+v", c)
		}
		if c.functions[name] != test.want {
			t.Errorf("%d goroutines more, want %d", c.functions[name], test.want)
		}
	}
}

func TestDifferenceOfMalformed(t *testing.T) {
	good := goroutineProfile(t)
	for _, message := range [][]byte{{0x80}, {2<<3 | 2, 5, 0}, {1<<3 | 1, 0}, {2<<3 | 2, 1, 0x80}, binary.AppendUvarint(nil, 2<<3|2)} {
		bad, err := packed(message)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := difference(bad, good, 0); err == nil {
			t.Errorf("% x is read", message)
		}
	}
	for _, pair := range [][2][]byte{{nil, good}, {good, nil}, {good, good[:20]}} {
		if _, err := difference(pair[0], pair[1], 0); err == nil {
			t.Error("what is not gzip is read")
		}
	}
}
