package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Document is what a command has to say: a header and sections.
type Document struct {
	Title    string    // of the file in Markdown; "": none
	Command  string    // as Header wants it
	Sections []Section // in their order
}

// A Section is a table with a title, notes below it, and plots, which
// PublishFolder writes.
type Section struct {
	Title string     // above the table
	Head  []string   // of the columns
	Rows  [][]string // as many cells each as Head
	Notes []string   // below the table
	Plots []Plot     // after the notes
}

// PublishFolder writes the document as Markdown into folder/name.md, with its
// plots beside it.
func (d Document) PublishFolder(folder, name string) (err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, s := range d.Sections {
		for _, plot := range s.Plots {
			if err := os.WriteFile(filepath.Join(folder, plot.File), plot.SVG(), 0o644); err != nil {
				return err
			}
		}
	}
	f, err := os.Create(filepath.Join(folder, name+".md"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return d.markdown(f)
}

// Publish prints the document.
func (d Document) Publish(w io.Writer) error {
	Header(w, d.Command)
	for i, s := range d.Sections {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n", s.Title)
		if err := Table(w, s.Head, s.Rows); err != nil {
			return err
		}
		for _, note := range s.Notes {
			fmt.Fprintf(w, "  %s\n", note)
		}
	}
	return nil
}

// markdown writes the document, with references to its plots.
func (d Document) markdown(w io.Writer) error {
	var header, out strings.Builder
	Header(&header, d.Command)
	if d.Title != "" {
		fmt.Fprintf(&out, "# %s\n\n", d.Title)
	}
	fmt.Fprintf(&out, "```\n%s\n```\n", strings.TrimRight(header.String(), "\n"))
	for _, s := range d.Sections {
		fmt.Fprintf(&out, "\n### %s\n\n", s.Title)
		markdownTable(&out, s.Head, s.Rows)
		for _, note := range s.Notes {
			fmt.Fprintf(&out, "\n%s\n", note)
		}
		for _, plot := range s.Plots {
			fmt.Fprintf(&out, "\n![%s](%s)\n", plot.Title, plot.File)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// markdownTable writes rows under their head. Columns are padded, so that the
// source can be read too.
func markdownTable(w io.Writer, head []string, rows [][]string) {
	all := slices.Concat([][]string{head}, rows)
	widths := make([]int, len(head))
	for r, row := range all {
		all[r] = make([]string, len(row))
		for i, cell := range row {
			all[r][i] = strings.ReplaceAll(cell, "|", `\|`)
			widths[i] = max(widths[i], utf8.RuneCountInString(all[r][i]), len("--:"))
		}
	}
	for r, row := range all {
		fmt.Fprintf(w, "| %-*s |", widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(w, " %*s |", widths[i+1], cell)
		}
		fmt.Fprintln(w)
		if r == 0 {
			fmt.Fprintf(w, "|%s|", strings.Repeat("-", widths[0]+2))
			for _, width := range widths[1:] {
				fmt.Fprintf(w, "%s:|", strings.Repeat("-", width+1))
			}
			fmt.Fprintln(w)
		}
	}
}

// Verdict compares what was measured, printed in a format such as "%.2f", with
// the most that it may be: "≤ 0.78 met".
func Verdict(value, most float64, format string) string {
	word := "met"
	if value > most {
		word = "missed"
	}
	return fmt.Sprintf("≤ "+format+" "+word, most)
}

// NotAbove says whether rounds' ratios of one server to another keep the first
// one from being above the second: "≤ 1 met" if their median does, "≤ 1 missed"
// if it does not. "≤ 1 tie": the median is above 1, but not every round is.
func NotAbove(ratios []float64) string {
	switch {
	case Median(ratios) <= 1:
		return "≤ 1 met"
	case slices.Min(ratios) <= 1:
		return "≤ 1 tie"
	default:
		return "≤ 1 missed"
	}
}
