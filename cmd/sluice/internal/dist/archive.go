package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// archiver is what the writers of tar and zip have in common here.
type archiver interface {
	// add adds a file. Archives have no folders of their own.
	add(name string, mode fs.FileMode, content []byte) error
	Close() error
}

// archive returns the name and the content of the archive with one binary.
func (r *release) archive(folder, platform, binary string) (name string, content []byte, err error) {
	var out bytes.Buffer
	name = folder + ".tar.gz"
	var a archiver
	if strings.HasPrefix(platform, "windows-") {
		name = folder + ".zip"
		a = zipped{zip.NewWriter(&out), r.time}
	} else {
		compressor := gzip.NewWriter(&out) // without a name and a time
		a = tarred{tar.NewWriter(compressor), compressor, r.time}
	}
	program, err := os.ReadFile(binary)
	if err == nil {
		err = a.add(path.Join(folder, filepath.Base(binary)), 0o755, program)
	}
	shared := os.DirFS(filepath.Join(r.in, "shared"))
	err = errors.Join(err, fs.WalkDir(shared, ".", func(file string, entry fs.DirEntry, err error) error { // in the order of their names
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(shared, file)
		return errors.Join(err, a.add(path.Join(folder, file), 0o644, text))
	}), a.Close())
	return name, out.Bytes(), err
}

type tarred struct {
	*tar.Writer
	compressor io.Closer
	time       time.Time
}

func (t tarred) add(name string, mode fs.FileMode, content []byte) error {
	err := t.WriteHeader(&tar.Header{Format: tar.FormatUSTAR, Name: name, Mode: int64(mode), Size: int64(len(content)), ModTime: t.time})
	if err == nil {
		_, err = t.Write(content)
	}
	return err
}

// Close ends the archive and its compression.
func (t tarred) Close() error { return errors.Join(t.Writer.Close(), t.compressor.Close()) }

type zipped struct {
	*zip.Writer
	time time.Time
}

func (z zipped) add(name string, mode fs.FileMode, content []byte) error {
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: z.time}
	header.SetMode(mode)
	w, err := z.CreateHeader(header)
	if err == nil {
		_, err = w.Write(content)
	}
	return err
}
