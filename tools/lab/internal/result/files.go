package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	resultName = "result.json"
	textName   = "result.md"
	reportName = "report.md"
)

// Save writes a result to a folder, which it makes.
func (r *Result) Save(folder string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	files := map[string][]byte{resultName: append(text, '\n'), textName: []byte(r.Markdown() + r.plotLinks())}
	for name, plot := range r.plots() {
		files[name] = plot
	}
	if err := saveAll(folder, files); err != nil {
		return err
	}
	for _, name := range []string{latencyPlot, broadcastPlot} {
		if files[name] != nil {
			continue
		}
		// Of a run that was in the folder before there may be one.
		if err := os.Remove(filepath.Join(folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// CheckFolder makes a folder and reports whether Save, or SaveComparison, could write
// to it.
func CheckFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, ".try-*")
	if err != nil {
		return err
	}
	_ = file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	for _, name := range []string{resultName, textName, reportName, memoryPlot, latencyPlot, throughputPlot, comparedPlot, perConnPlot, broadcastPlot} {
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_ = file.Close()
	}
	return nil
}

// ResultFile and ComparisonFile return the name of what Save and SaveComparison
// write for people.
func ResultFile(folder string) string { return filepath.Join(folder, textName) }

// ComparisonFile is ResultFile for several runs.
func ComparisonFile(folder string) string { return filepath.Join(folder, reportName) }

func saveAll(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// LoadAll reads the results that were saved to folders.
func LoadAll(folders []string) ([]*Result, error) {
	var all []*Result
	for _, folder := range folders {
		path := filepath.Join(folder, resultName)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r := &Result{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		// Those that every result has: another program's JSON may be read without
		// an error, too.
		if r.Scenario.Name == "" || r.Header.Date == "" || r.Load.Mode == "" || r.Memory.After.Connections <= 0 {
			return nil, fmt.Errorf("%s is no result of \"sluice lab run\"", path)
		}
		all = append(all, r)
	}
	return all, nil
}
