//go:build linux

package run

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A Progress shows how far a run is.
type Progress interface {
	// Phase begins a phase with so many steps; 0: not known.
	Phase(name string, total int)
	// Set says how many steps are done. note is whatever else is worth knowing.
	Set(done int, note string)
	// Close ends the last phase.
	Close()
}

// NewProgress returns a Progress with bars where w is a terminal, with lines
// otherwise.
func NewProgress(w io.Writer, isTerminal bool) Progress {
	if isTerminal {
		return &bars{out: w}
	}
	return &lines{out: w}
}

// bars shows a bar for each phase.
type bars struct {
	out  io.Writer
	bar  *progressbar.ProgressBar
	name string
}

// Phase implements Progress.
func (b *bars) Phase(name string, total int) {
	b.Close()
	b.name = name
	if total <= 0 {
		fmt.Fprintln(b.out, name)
		return
	}
	before := strings.TrimRight(description(name, "", b.width()), " ")
	b.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(before),
		progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(false))
}

// Set implements Progress.
func (b *bars) Set(done int, note string) {
	if b.bar == nil {
		return
	}
	b.bar.Describe(description(b.name, note, b.width()))
	_ = b.bar.Set(done)
}

// width returns how many columns the terminal has; 0: not known.
func (b *bars) width() int {
	file, ok := b.out.(*os.File)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(int(file.Fd()))
	return width
}

// barWidth is what a bar takes at least, with the percentage before it.
const barWidth = 12

// description returns what stands before a bar in a terminal of so many columns;
// 0: any number. A line that is wider would be broken in two, of which only one is
// overwritten.
func description(name, note string, width int) string {
	text := fmt.Sprintf("%-12s %-40s", name, note)
	if width > 0 {
		text = text[:min(len(text), max(width-barWidth, 0))]
	}
	return text
}

// Close implements Progress.
func (b *bars) Close() {
	if b.bar != nil {
		_ = b.bar.Finish()
		fmt.Fprintln(b.out)
		b.bar = nil
	}
}

// lines writes a line for each phase, and one now and then.
type lines struct {
	out   io.Writer
	name  string
	total int
	last  time.Time
}

// lineInterval is how often there is a line.
const lineInterval = 5 * time.Second

// Phase implements Progress.
func (l *lines) Phase(name string, total int) {
	l.name, l.total, l.last = name, total, time.Now()
	if total > 0 {
		fmt.Fprintf(l.out, "%s: %d\n", name, total)
	} else {
		fmt.Fprintf(l.out, "%s\n", name)
	}
}

// Set implements Progress.
func (l *lines) Set(done int, note string) {
	if time.Since(l.last) < lineInterval {
		return
	}
	l.last = time.Now()
	fmt.Fprintf(l.out, "%s: %d of %d %s\n", l.name, done, l.total, note)
}

// Close implements Progress.
func (l *lines) Close() {}
