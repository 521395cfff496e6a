package main

import (
	"io/fs"
	"os"
	"strings"
)

// visibleFiles is a folder without the files and folders whose names begin with
// a dot, for the lists of folders: they would link to what is not served. Each
// Open looks the folder up anew, as it may be replaced by another.
type visibleFiles struct{ dir string }

// Open implements fs.FS. No name leads out of the folder.
func (v visibleFiles) Open(name string) (fs.File, error) {
	if hasHiddenSegment([]byte("/"+name)) && name != "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	root, err := os.OpenRoot(v.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.FS().Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.IsDir() {
		return file, err
	}
	folder, ok := file.(fs.ReadDirFile)
	if !ok {
		return file, nil
	}
	return visibleFolder{ReadDirFile: folder, isRoot: name == "."}, nil
}

// visibleFolder is an open folder of visibleFiles.
type visibleFolder struct {
	fs.ReadDirFile
	isRoot bool
}

// ReadDir implements fs.ReadDirFile.
func (f visibleFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	for {
		entries, err := f.ReadDirFile.ReadDir(n)
		visible := entries[:0]
		for _, entry := range entries {
			name := entry.Name()
			if !strings.HasPrefix(name, ".") || f.isRoot && name == wellKnown {
				visible = append(visible, entry)
			}
		}
		if len(visible) > 0 || err != nil || n <= 0 {
			return visible, err
		}
	}
}
