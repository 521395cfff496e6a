package report

import (
	"encoding/json"
	"fmt"
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
	return saveAll(folder, files)
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
		text, err := os.ReadFile(filepath.Join(folder, resultName))
		if err != nil {
			return nil, err
		}
		r := &Result{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(folder, resultName), err)
		}
		all = append(all, r)
	}
	return all, nil
}
