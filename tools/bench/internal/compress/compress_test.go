package compress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCompress has each coding, at its default level, with messages of each
// size.
func BenchmarkCompress(b *testing.B) {
	for _, size := range sizes {
		messages := newMessages(size)
		for _, c := range codings() {
			encoders, err := c.encoders()
			if err != nil {
				b.Fatal(err)
			}
			for i, name := range contenderNames {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", c, size>>10, name), func(b *testing.B) { c.run(b, encoders[i], messages) })
			}
		}
	}
}

// BenchmarkLevels has our function at the levels from which defaults are chosen,
// with JSON and HTML of each size.
func BenchmarkLevels(b *testing.B) {
	for _, size := range sizes {
		for _, kind := range []struct {
			name     string
			messages [][]byte
		}{{"JSON", newMessages(size)}, {"HTML", newPages(size)}} {
			for _, c := range someLevels() {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", kind.name, size>>10, c), func(b *testing.B) { c.run(b, appending(c.ours, c.level), kind.messages) })
			}
		}
	}
}

// BenchmarkAllLevels has our function at all levels.
func BenchmarkAllLevels(b *testing.B) {
	messages := newMessages(levelsSize)
	for _, c := range allLevels() {
		b.Run(fmt.Sprintf("JSON/%s", c), func(b *testing.B) { c.run(b, appending(c.ours, c.level), messages) })
	}
}

// String returns the coding with its level.
func (c coding) String() string { return fmt.Sprintf("%s_%d", c.name, c.level) }

// run encodes messages in turn. What is made of each of them is checked first.
func (c coding) run(b *testing.B, encode encode, messages [][]byte) {
	size, err := c.check(encode, messages)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	used := cpuTime(b)
	b.ResetTimer()
	for i := range b.N {
		if _, err := encode(messages[i%len(messages)]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(size)/float64(len(messages)), "encoded-B/op")
}

// cpuTime returns what the process has used, which does not depend on what else the
// machine does.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// check returns the length of all messages when they are encoded.
func (c coding) check(encode encode, messages [][]byte) (size int, err error) {
	for _, message := range messages {
		out, err := encode(message)
		if err != nil {
			return 0, err
		}
		decoded, err := c.decode(nil, out)
		if err != nil || !bytes.Equal(decoded, message) {
			return 0, fmt.Errorf("%d bytes are decoded to %d, not %d: %v", len(out), len(decoded), len(message), err)
		}
		size += len(out)
	}
	return size, nil
}

func TestMessages(t *testing.T) {
	for _, size := range sizes {
		messages := newMessages(size)
		for i, message := range messages {
			if page := newPages(size)[i]; len(page) < size || len(page) > size+700 || !bytes.HasSuffix(page, []byte("</html>\n")) {
				t.Errorf("a page of %d bytes for %d", len(page), size)
			}
			if !json.Valid(message) || len(message) < size || len(message) > size+500 {
				t.Errorf("%d bytes for %d", len(message), size)
			}
			if i > 0 && bytes.Equal(message, messages[0]) {
				t.Error("two messages are the same")
			}
		}
		if !bytes.Equal(messages[1], newMessages(size)[1]) {
			t.Error("another run would measure something else")
		}
	}
}

// TestCheckSeesWrongOutput: a contender that encodes something else, or fails,
// is not measured.
func TestCheckSeesWrongOutput(t *testing.T) {
	messages, c := newMessages(1<<10), gzipAt(6)
	if size, err := c.check(appending(c.ours, 6), messages); err != nil || size == 0 {
		t.Fatal(size, err)
	}
	for name, wrong := range map[string]appendLevel{
		"other data": func(dst, src []byte, level int) []byte { return c.ours(dst, src[1:], level) },
		"no gzip":    func(dst, src []byte, _ int) []byte { return append(dst, src...) },
	} {
		if _, err := c.check(appending(wrong, 6), messages); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := encodedBody([]byte("gzip"), nil, "br"); err == nil {
		t.Error("a handler that did not encode is measured")
	}
}
