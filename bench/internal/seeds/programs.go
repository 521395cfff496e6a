package seeds

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluicehttp/sluice/bench/internal/command"
)

// runCommand builds another command of this module, runs it, and returns the
// tables of its report.
func runCommand(ctx context.Context, folder, name string, args ...string) ([]table, error) {
	command.Progress("%s: building", name)
	module, err := command.ModuleFolder(ctx)
	if err != nil {
		return nil, err
	}
	program, markdown := filepath.Join(folder, name), filepath.Join(folder, name+".md")
	for _, line := range [][]string{
		{"go", "build", "-o", program, "github.com/sluicehttp/sluice/bench/" + name},
		append([]string{program, "-markdown", markdown}, args...),
	} {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Dir = module
		cmd.Stderr = os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it cleans up
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w", line[0], err)
		}
	}
	text, err := os.ReadFile(markdown)
	if err != nil {
		return nil, err
	}
	return parseTables(string(text)), nil
}

// anyOf returns a regular expression of names, which have nothing special in
// them.
func anyOf(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// A table is one of a report in Markdown.
type table struct {
	head []string
	rows [][]string
}

// parseTables reads the tables of a report in Markdown.
func parseTables(markdown string) (tables []table) {
	inTable := false
	for line := range strings.Lines(markdown) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !inTable:
			inTable = true
			tables = append(tables, table{head: cells})
		case !strings.HasPrefix(cells[0], "--"):
			last := &tables[len(tables)-1]
			last.rows = append(last.rows, cells)
		}
	}
	return tables
}

// column returns the first column of a name.
func (t table) column(name string) (int, error) {
	if i := slices.Index(t.head, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("no column %q among %q", name, t.head)
}

// pick returns the cells of some columns, row by row.
func (t table) pick(names ...string) (rows [][]string, err error) {
	columns := make([]int, len(names))
	for i, name := range names {
		if columns[i], err = t.column(name); err != nil {
			return nil, err
		}
	}
	for _, row := range t.rows {
		picked := make([]string, len(names))
		for i, column := range columns {
			if column >= len(row) {
				return nil, fmt.Errorf("a row of %d cells under a head of %d", len(row), len(t.head))
			}
			picked[i] = row[column]
		}
		rows = append(rows, picked)
	}
	return rows, nil
}
