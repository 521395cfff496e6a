package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/report"
)

func TestParseFlags(t *testing.T) {
	o, err := parseFlags([]string{"-case", "^br", "-rounds", "3", "-turn", "5ms", "-levels"})
	if err != nil || o.rounds != 3 || o.turn != 5*time.Millisecond || !o.levels || !o.cases.MatchString("br 4, 1 KiB") {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-case", "("}, {"-rounds", "0"}, {"-turn", "1us"}, {"stray"}, {"-file", "/no/such"}, {"-file", "main.go"}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, size := range sizes {
		messages := newMessages(size)
		for i, message := range messages {
			if !json.Valid(message) || len(message) < size || len(message) > size+500 {
				t.Errorf("%d bytes for %d", len(message), size)
			}
			if i > 0 && bytes.Equal(message, messages[0]) {
				t.Error("two messages are the same")
			}
		}
		text := bytes.Repeat([]byte("0123456789"), 10_000)
		if parts := (options{text: text}).messages(size); len(parts) != min(messageCount, len(text)/size) || !bytes.HasPrefix(text, parts[0]) || len(parts[0]) != size {
			t.Errorf("%d parts of the text", len(parts))
		}
		if !bytes.Equal(messages[1], newMessages(size)[1]) {
			t.Error("another run would measure something else")
		}
	}
}

// TestCheckSeesWrongOutput: a contender that encodes something else, or fails,
// is not measured.
func TestCheckSeesWrongOutput(t *testing.T) {
	messages := newMessages(1 << 10)
	c := &benchCase{coding: gzipAt(6), size: 1 << 10, messages: messages, contenders: allContenders[:]}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]appendLevel{
		"other data": func(dst, src []byte, level int) []byte { return gzipAt(6).ours(dst, src[1:], level) },
		"no gzip":    func(dst, src []byte, _ int) []byte { return append(dst, src...) },
	} {
		c.ours = wrong
		if err := c.check(); err == nil || !strings.Contains(err.Error(), contenderNames[ourFunction]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := encodedBody([]byte("gzip"), nil, "br"); err == nil {
		t.Error("a handler that did not encode is measured")
	}
}

func TestRun(t *testing.T) {
	for _, levels := range []bool{false, true} {
		o, err := parseFlags([]string{"-case", "^zstd 2, 8 KiB", "-rounds", "1", "-turn", "1ms"})
		if err != nil {
			t.Fatal(err)
		}
		o.levels = levels
		cases, err := newCases(o)
		if err != nil || len(cases) != 1 {
			t.Fatalf("%d cases, %v", len(cases), err)
		}
		if err := cases[0].round(o.turn); err != nil {
			t.Fatal(err)
		}
		sections := document(o, cases).Sections
		if want := len(cases[0].contenders); len(sections) != 1 || len(sections[0].Rows) != want {
			t.Errorf("levels %v: %+v", levels, sections)
		}
		for _, row := range sections[0].Rows {
			if len(row) != len(sections[0].Head) {
				t.Errorf("%d cells below %d", len(row), len(sections[0].Head))
			}
		}
	}
	o, _ := parseFlags([]string{"-case", "no such case"})
	if _, err := newCases(o); err == nil {
		t.Error("no cases, no error")
	}
}

func TestVerdictIsOfTheMedian(t *testing.T) {
	c := &benchCase{coding: gzipAt(6), size: 1 << 10, messages: newMessages(1 << 10), contenders: allContenders[:]}
	for _, ours := range []float64{100, 110, 200} {
		c.samples[direct] = append(c.samples[direct], sample{microseconds: 100})
		c.samples[ourFunction] = append(c.samples[ourFunction], sample{microseconds: ours})
	}
	if got, want := c.row(ourFunction)[5], report.Verdict(1.10, 1.10, "%.2f"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
