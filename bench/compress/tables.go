package main

import (
	"fmt"

	"github.com/sluicehttp/sluice/bench/internal/report"
)

// mostOfDirect is what ours may cost, compared with direct use.
const mostOfDirect = 1.10

func document(o options, cases []*benchCase) report.Document {
	d := report.Document{Command: o.commandLine}
	if o.levels {
		d.Sections = []report.Section{o.levelsSection(cases)}
		return d
	}
	for _, size := range sizes {
		var rows [][]string
		for _, c := range cases {
			if c.size != size {
				continue
			}
			for _, i := range c.contenders {
				rows = append(rows, c.row(i))
			}
		}
		if rows != nil {
			d.Sections = append(d.Sections, report.Section{
				Title: fmt.Sprintf("%s of about %d KiB, encoded", o.kind(), size>>10),
				Head:  []string{"coding, level", "by", "CPU µs", "MB/s", "÷ direct", "target", "allocs", "B allocated", "encoded B", "of plain"},
				Rows:  rows,
			})
		}
	}
	if last := len(d.Sections) - 1; last >= 0 {
		d.Sections[last].Notes = notes()
	}
	return d
}

// kind is what the messages are.
func (o options) kind() string {
	if o.text != nil {
		return "Text"
	}
	return "JSON"
}

func (o options) levelsSection(cases []*benchCase) report.Section {
	s := report.Section{
		Title: fmt.Sprintf("Levels, with %s of about %d KiB", o.kind(), levelsSize>>10),
		Head:  []string{"coding, level", "CPU µs", "MB/s", "encoded B", "of plain"},
		Notes: []string{"CPU time per message, medians of the rounds."},
	}
	for _, c := range cases {
		row := c.row(ourFunction)
		s.Rows = append(s.Rows, []string{row[0], row[2], row[3], row[8], row[9]})
	}
	return s
}

func notes() []string {
	return []string{
		"CPU time and allocations are per message, medians of the rounds; ratios are medians of the rounds' ratios, in brackets the lowest and the highest round's.",
		"direct: klauspost/compress and andybalholm/brotli with one compressor, Reset for every message. function: Append…BytesLevel. handler: CompressHandlerBrotliLevel called with a RequestCtx, around a handler that writes the message.",
	}
}

func (c *benchCase) row(contender int) []string {
	times := c.column(contender, func(s sample) float64 { return s.microseconds })
	ratios := report.Ratios(times, c.column(direct, func(s sample) float64 { return s.microseconds }))
	ratio, verdict := report.Ratio(ratios), "-"
	switch contender {
	case direct:
		ratio = "1"
	case ourFunction, ourHandler:
		verdict = report.Verdict(report.Median(ratios), mostOfDirect, "%.2f")
	}
	plain, count := float64(c.plain()), float64(len(c.messages))
	encoded := float64(c.encoded[contender])
	microseconds := report.Median(times)
	return []string{
		fmt.Sprintf("%s %d", c.coding.name, c.level),
		contenderNames[contender],
		fmt.Sprintf("%.1f", microseconds),
		fmt.Sprintf("%.0f", plain/count/microseconds),
		ratio,
		verdict,
		fmt.Sprintf("%.1f", report.Median(c.column(contender, func(s sample) float64 { return s.allocs }))),
		fmt.Sprintf("%.0f", report.Median(c.column(contender, func(s sample) float64 { return s.bytes }))),
		fmt.Sprintf("%.0f", encoded/count),
		fmt.Sprintf("%.1f %%", 100*encoded/plain),
	}
}

// column returns a figure of a contender, round by round.
func (c *benchCase) column(contender int, figure func(sample) float64) (values []float64) {
	for _, s := range c.samples[contender] {
		values = append(values, figure(s))
	}
	return values
}
