package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPack: the same input from another folder gives the same bytes, and the checksums are
// those of all files.
func TestPack(t *testing.T) {
	first, second := packed(t), packed(t)
	sums := string(first["SHA256SUMS"])
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s is another one in the second output", name)
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name); name != "SHA256SUMS" && !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS has no line %q", line)
		}
	}
	if len(first) != 6 || len(second) != 6 || strings.Count(sums, "\n") != 5 {
		t.Errorf("%d and %d files; %s", len(first), len(second), sums)
	}
	r := release{in: t.TempDir(), out: t.TempDir()}
	if err := r.pack(); err == nil || !strings.Contains(err.Error(), "no binaries") {
		t.Errorf("nothing to pack: %v", err)
	}
	r.out = filepath.Dir(r.out)
	if err := r.pack(); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a folder with files: %v", err)
	}
	t.Run("archives", func(t *testing.T) { testArchives(t, first) })
	t.Run("statements", func(t *testing.T) { testStatements(t, first) })
}

// testArchives: the files have the time of the commit, no owner's name, and the right modes.
func testArchives(t *testing.T, files map[string][]byte) {
	var got []string
	uncompressed, err := gzip.NewReader(bytes.NewReader(files["sluice-v1.2.3-linux-amd64.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(uncompressed); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %o %d %q %d", h.Name, h.Mode, h.Uid, h.Uname, h.ModTime.Unix()))
	}
	want := []string{`sluice-v1.2.3-linux-amd64/sluice 755 0 "" 1700000001`, `sluice-v1.2.3-linux-amd64/LICENSE 644 0 "" 1700000001`, `sluice-v1.2.3-linux-amd64/man/sluice.1 644 0 "" 1700000001`}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	zipped := files["sluice-v1.2.3-windows-amd64.zip"]
	z, err := zip.NewReader(bytes.NewReader(zipped), int64(len(zipped)))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"sluice.exe", "LICENSE", "man/sluice.1"} {
		if f := z.File[i]; f.Name != "sluice-v1.2.3-windows-amd64/"+name || f.Modified.Unix() != 1700000001 {
			t.Errorf("%s of %v, want %s", f.Name, f.Modified, name)
		}
	}
}

// testStatements: the list of modules is that of the binary, and the provenance names each
// product and the commit.
func testStatements(t *testing.T, files map[string][]byte) {
	var bom struct {
		Metadata   struct{ Component struct{ Name string } }
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(files["sluice-v1.2.3-linux-amd64.cdx.json"], &bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Name != "github.com/sluicehttp/sluice/cmd/sluice" || len(bom.Components) == 0 || bom.Components[0].Name != "std" {
		t.Errorf("%+v", bom)
	}
	var p struct {
		Subject []struct {
			Name   string
			Digest struct{ SHA256 string }
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest struct{ GitCommit string } }
			}
		}
	}
	if err := json.Unmarshal(files["sluice-v1.2.3.intoto.json"], &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Subject) != 4 || p.Predicate.BuildDefinition.ResolvedDependencies[0].Digest.GitCommit != "c0ffee" {
		t.Errorf("%+v", p)
	}
	for _, s := range p.Subject {
		if want := fmt.Sprintf("%x", sha256.Sum256(files[s.Name])); s.Digest.SHA256 != want {
			t.Errorf("%s: %s, want %s", s.Name, s.Digest.SHA256, want)
		}
	}
}

// packed packs the test's own binary as one of two platforms, and returns the files.
func packed(t *testing.T) map[string][]byte {
	t.Helper()
	r := release{version: "v1.2.3", commit: "c0ffee", time: time.Unix(1_700_000_001, 0).UTC(), in: t.TempDir(), out: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"linux-amd64/sluice": program, "windows-amd64/sluice.exe": program, "shared/LICENSE": []byte("MIT"), "shared/man/sluice.1": []byte(".TH"),
	} {
		name = filepath.Join(r.in, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.pack(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	names, _ := filepath.Glob(filepath.Join(r.out, "*"))
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
