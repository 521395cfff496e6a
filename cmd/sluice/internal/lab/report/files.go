package report

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
	files := map[string]string{resultName: string(text) + "\n", textName: r.Markdown() + r.plotLinks()}
	for name, plot := range r.plots() {
		files[name] = plot
	}
	if err := saveAll(folder, files); err != nil || files[latencyPlot] != "" {
		return err
	}
	// Of a run that was in the folder before there may be one.
	if err := os.Remove(filepath.Join(folder, latencyPlot)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func saveAll(folder string, files map[string]string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
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
