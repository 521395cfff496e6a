package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/sluicehttp/sluice/tools/lab/load"
	"golang.org/x/term"
)

// benchProgress tells how a run goes. A nil one does not.
type benchProgress struct {
	bar      *progressbar.ProgressBar // nil: plain lines
	duration time.Duration            // of the bar; 0: it is about requests
}

// newProgress returns what was asked for, nil for nothing.
func (o *benchOptions) newProgress() *benchProgress {
	isTerminal := term.IsTerminal(int(os.Stderr.Fd()))
	switch {
	case o.quiet || !isTerminal && !o.progress:
		return nil
	case !isTerminal:
		return &benchProgress{}
	}
	p := &benchProgress{duration: o.duration}
	total := o.duration.Milliseconds()
	if o.requests > 0 {
		p.duration, total = 0, o.requests
	}
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetWidth(16),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(),
	)
	return p
}

// show tells how it goes.
func (p *benchProgress) show(now load.Progress) {
	line := progressLine(now)
	if p.bar == nil {
		fmt.Fprintf(os.Stderr, "%4.0fs  %s\n", now.Elapsed.Seconds(), line)
		return
	}
	width, _, _ := term.GetSize(int(os.Stderr.Fd())) // 0: not known
	p.bar.Describe(fitted(fmt.Sprintf("%.0fs  %s", now.Elapsed.Seconds(), line), width))
	at := now.Elapsed.Milliseconds()
	if p.duration == 0 {
		at = now.Counts.Answered + now.Counts.ErrorSum()
	}
	_ = p.bar.Set64(min(at, p.bar.GetMax64())) // drawing is no reason to fail
}

// barWidth is what a bar takes at least, with the percentage before it.
const barWidth = 12

// fitted cuts a line to what fits beside a bar in so many columns; 0: any number.
// The terminal would break a longer one in two, of which only one is overwritten.
func fitted(line string, width int) string {
	if width <= 0 {
		return line
	}
	runes := []rune(line)
	return string(runes[:min(len(runes), max(width-barWidth, 0))])
}

// end clears the line.
func (p *benchProgress) end() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}

// progressLine says what the last second was like.
func progressLine(now load.Progress) string {
	quantile := func(percent float64) string {
		return tidy(time.Duration(now.Latency.ValueAtPercentile(percent)))
	}
	line := grouped(int64(now.Rate+0.5)) + "/s"
	if now.Latency.TotalCount() > 0 {
		line += fmt.Sprintf("  p50 %s  p99 %s  max %s", quantile(50), quantile(99), tidy(time.Duration(now.Latency.Max())))
	}
	if errors := now.Counts.ErrorSum(); errors > 0 {
		line += fmt.Sprintf("  errors %s", grouped(errors))
	}
	if failures := now.Counts.StatusClass(4) + now.Counts.StatusClass(5); failures > 0 {
		line += fmt.Sprintf("  4xx/5xx %s", grouped(failures))
	}
	return line
}
