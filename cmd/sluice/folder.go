package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicehttp/sluice/prefork"
)

// errNoFolder says that there is nothing of a name.
var errNoFolder = errors.New("there is no such folder")

// checkFolder returns the absolute name of a folder that can be served.
// Symbolic links in it stay: what they lead to may be exchanged later.
func checkFolder(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("DIR is empty; . is the working directory")
	}
	if prefork.IsManager() {
		return filepath.Abs(dir) // it may be gone by now; see lead
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot serve %s: %w", dir, errNoFolder)
	}
	if err == nil && info.Mode().IsRegular() {
		return "", fmt.Errorf("cannot serve %s: it is a file, and serve takes a folder: sluice serve %s", dir, filepath.Dir(dir))
	}
	if err == nil && !info.IsDir() {
		return "", fmt.Errorf("cannot serve %s: it is not a folder", dir)
	}
	if err == nil {
		_, err = os.ReadDir(dir)
	}
	if err != nil {
		return "", fmt.Errorf("cannot serve %s: %w", dir, reasonOf(err))
	}
	return filepath.Abs(dir)
}

// reasonOf returns the cause of an error about a file, without its name.
func reasonOf(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// copiesFolder returns the folder for encoded copies: the one that is named,
// which is made if need be, else a temporary one, which is the caller's to
// remove.
func copiesFolder(named string) (folder string, isTemporary bool, err error) {
	if named == "" {
		folder, err = os.MkdirTemp("", "sluice-")
		if err != nil {
			return "", false, fmt.Errorf("cannot make a folder for encoded copies: %w; choose one with --compress-root, or --compress=false", err)
		}
		return folder, true, nil
	}
	err = os.MkdirAll(named, 0o755)
	var probe *os.File
	if err == nil {
		probe, err = os.CreateTemp(named, ".probe-")
	}
	if err != nil {
		return "", false, fmt.Errorf("cannot use --compress-root %s: %w", named, reasonOf(err))
	}
	probe.Close()
	os.Remove(probe.Name())
	folder, err = filepath.Abs(named)
	return folder, false, err
}

// isBelow reports whether a file, which need not exist, is in a folder or is it.
func isBelow(name, folder string) bool {
	relative, err := filepath.Rel(resolve(folder), resolve(name))
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// resolve returns the absolute name without symbolic links, as far as there
// are files.
func resolve(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	resolved, err := filepath.EvalSymlinks(name)
	if err == nil {
		return resolved
	}
	parent := filepath.Dir(name)
	if parent == name {
		return name
	}
	return filepath.Join(resolve(parent), filepath.Base(name))
}
