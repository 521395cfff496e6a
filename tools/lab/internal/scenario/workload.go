package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// WorkloadKind is what a handler does with a request.
type WorkloadKind string

// The kinds of workloads.
const (
	Echo    WorkloadKind = "echo"    // answers with what it got
	Discard WorkloadKind = "discard" // does not answer
	IO      WorkloadKind = "io"      // sleeps, as if a database were asked, and echoes
	Pow     WorkloadKind = "pow"     // looks for a hash with leading zero bits, and echoes
)

// maxBits bounds Pow: 2^28 hashes take a minute.
const maxBits = 28

// A Workload is what a handler does with a request. In text and JSON it is
// "echo", "discard", "io=10ms" or "pow=12".
type Workload struct {
	Kind  WorkloadKind
	Sleep time.Duration // IO
	Bits  int           // Pow
}

// ParseWorkload returns the workload of a text.
func ParseWorkload(text string) (w Workload, err error) {
	kind, value, hasValue := strings.Cut(text, "=")
	w.Kind = WorkloadKind(kind)
	switch {
	case (w.Kind == Echo || w.Kind == Discard) && !hasValue:
		return w, nil
	case w.Kind == IO:
		w.Sleep, err = time.ParseDuration(value)
		if err != nil || w.Sleep <= 0 {
			return w, fmt.Errorf("io takes how long the handler sleeps, as in io=10ms, not %q", value)
		}
		return w, nil
	case w.Kind == Pow:
		w.Bits, err = strconv.Atoi(value)
		if err != nil || w.Bits < 1 || w.Bits > maxBits {
			return w, fmt.Errorf("pow takes a number of bits from 1 to %d, as in pow=12, not %q", maxBits, value)
		}
		return w, nil
	}
	return w, fmt.Errorf("there is no workload %q: it is echo, discard, io=DURATION or pow=BITS", text)
}

// String returns what ParseWorkload takes.
func (w Workload) String() string {
	switch w.Kind {
	case IO:
		return fmt.Sprintf("io=%v", w.Sleep)
	case Pow:
		return fmt.Sprintf("pow=%d", w.Bits)
	}
	return string(w.Kind)
}

// MarshalText implements encoding.TextMarshaler.
func (w Workload) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Workload) UnmarshalText(text []byte) (err error) {
	*w, err = ParseWorkload(string(text))
	return err
}
