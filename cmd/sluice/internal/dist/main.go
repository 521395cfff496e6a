// Command dist packs what .ci/release has built: an archive and a list of modules (SBOM) for
// each platform, a statement of where they come from, and the checksums of all. The same
// input gives the same bytes.
//
//	go run ./internal/dist -version v0.1.0 -commit HASH -time SECONDS -in FOLDER -out FOLDER
//
// The folder of the input has a folder GOOS-GOARCH with the binary for each platform, and a
// folder "shared" with what is in every archive.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A release is what is packed.
type release struct {
	version string    // v0.1.0
	commit  string    // of the tag
	time    time.Time // of the commit
	in, out string    // folders
}

// A product is a file of the output.
type product struct{ name, sha256 string }

func main() {
	var r release
	seconds := flag.Int64("time", 0, "when the commit was made, in `SECONDS` since 1970")
	flag.StringVar(&r.version, "version", "", "the `VERSION`")
	flag.StringVar(&r.commit, "commit", "", "the `HASH` of the commit")
	flag.StringVar(&r.in, "in", "", "the `FOLDER` with the binaries")
	flag.StringVar(&r.out, "out", "", "the `FOLDER` to write")
	flag.Parse()
	r.time = time.Unix(*seconds, 0).UTC()
	err := errors.New("all flags are needed")
	if r.version != "" && r.commit != "" && *seconds > 0 && r.in != "" && r.out != "" && flag.NArg() == 0 {
		err = r.pack()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// pack writes everything. The output must be empty: the checksums are of all files.
func (r *release) pack() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if old, err := os.ReadDir(r.out); err != nil || len(old) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty", r.out))
	}
	binaries, err := filepath.Glob(filepath.Join(r.in, "*-*", "sluice*")) // in the order of their names
	if err != nil || len(binaries) == 0 {
		return fmt.Errorf("no binaries in %s", r.in)
	}
	var products []product
	add := func(name string, content []byte) error {
		sum := sha256.Sum256(content)
		products = append(products, product{name, hex.EncodeToString(sum[:])})
		return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
	}
	for _, binary := range binaries {
		platform := filepath.Base(filepath.Dir(binary))
		name := "sluice-" + r.version + "-" + platform
		archive, content, err := r.archive(name, platform, binary)
		if err != nil {
			return err
		}
		bom, err := r.sbom(binary)
		if err := errors.Join(err, add(archive, content), add(name+".cdx.json", bom)); err != nil {
			return err
		}
	}
	statement, err := r.provenance(products)
	if err := errors.Join(err, add("sluice-"+r.version+".intoto.json", statement)); err != nil {
		return err
	}
	var sums strings.Builder
	for _, p := range products {
		fmt.Fprintf(&sums, "%s  %s\n", p.sha256, p.name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// object is a JSON object. Its members are written in the order of their names.
type object = map[string]any

func encode(o object) ([]byte, error) {
	text, err := json.MarshalIndent(o, "", "  ")
	return append(text, '\n'), err
}
