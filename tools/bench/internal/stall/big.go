package stall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// bigTarget is the most memory that a server may have that moves large files.
const bigTarget = 64 << 20

// A move is a way to move large files.
type move struct {
	name     string
	target   string
	isUpload bool
	toDisk   bool
}

// moves returns all ways.
func moves() []move {
	return []move{
		{name: "download of a file", target: bodyFromFile},
		{name: "upload to a checksum", target: uploadToSum, isUpload: true},
		{name: "upload to the disk", target: uploadToDisk, isUpload: true, toDisk: true},
	}
}

func moveAll(ctx context.Context, o options, root string) ([]report.Section, error) {
	section := report.Section{
		Title: fmt.Sprintf("Files of %v, %s", o.big, o.over()),
		Head:  []string{"what", "at a time", "s", "MiB/s", "peak RSS MiB", "target"},
		Notes: []string{
			"Every row has a server process of its own; the peak is its VmHWM, with the program itself. Checksums of what arrived were compared.",
			"The file is a sparse one, with some text in it. Uploads are read by the handler while they arrive (StreamRequestBody).",
		},
	}
	command.Progress("making a file of %v", o.big)
	down, err := writeSparse(filepath.Join(root, fileName), int64(o.big))
	if err != nil {
		return nil, err
	}
	up, _, err := checksum(zeroBody(int64(o.big)))
	if err != nil {
		return nil, err
	}
	var failures error
	for _, parallel := range distinct(1, o.parallel) {
		for _, m := range moves() {
			want := down
			if m.isUpload {
				want = up
			}
			row, err := moveBodies(ctx, o, root, m, parallel, want)
			if row != nil {
				section.Rows = append(section.Rows, row)
			}
			if err != nil {
				failures = errors.Join(failures, fmt.Errorf("%s, %d at a time: %w", m.name, parallel, err))
			}
			if ctx.Err() != nil {
				return []report.Section{section}, failures
			}
		}
	}
	return []report.Section{section}, failures
}

func distinct(a, b int) []int {
	if a == b {
		return []int{a}
	}
	return []int{a, b}
}

// writeSparse makes a file with text here and there, and returns its checksum.
func writeSparse(name string, size int64) (sum uint32, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(size); err != nil {
		return 0, err
	}
	const parts = 16
	for i := range int64(parts) {
		at := size / parts * i
		if _, err := f.WriteAt(fmt.Appendf(nil, "part %d begins at %d", i, at), at); err != nil {
			return 0, err
		}
	}
	sum, _, err = checksum(f)
	return sum, err
}

// moveBodies moves bodies and returns the table's row. An error with a row says
// that a target was missed.
func moveBodies(ctx context.Context, o options, root string, m move, parallel int, want uint32) (row []string, err error) {
	command.Progress("%s, %d at a time", m.name, parallel)
	total := int64(o.big) * int64(parallel)
	if m.toDisk {
		const spare = 1 << 30
		if free, err := process.FreeSpace(root); err != nil || free < total+spare {
			return nil, errors.Join(err, fmt.Errorf("%s has %d MiB free, want %d", root, free>>20, (total+spare)>>20))
		}
	}
	server, err := startServer(ctx, o, serveConfig{Root: root})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	result, err := transferAll(ctx, transferConfig{
		Addr: server.Addr, Target: m.target, Size: int64(o.big), Parallel: parallel, Upload: m.isUpload, TLS: o.tls,
	})
	if err != nil {
		return nil, err
	}
	for _, sum := range result.Sums {
		if sum != want {
			return nil, errors.New("something else arrived than was sent")
		}
	}
	memory, err := server.Memory()
	if err != nil {
		return nil, err
	}
	verdict := "< 64 MiB met"
	if memory.Peak >= bigTarget {
		verdict = "< 64 MiB missed"
		err = fmt.Errorf("the server had %s MiB, want less than 64", mebibytes(memory.Peak))
	}
	seconds := result.Elapsed.Seconds()
	return []string{
		m.name, fmt.Sprint(parallel), fmt.Sprintf("%.1f", seconds), fmt.Sprintf("%.0f", float64(total>>20)/seconds), mebibytes(memory.Peak), verdict,
	}, err
}
