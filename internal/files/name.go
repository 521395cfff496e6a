package files

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
)

// maxName is longer than any useful name. It bounds what a request can make the
// operating system look up.
const maxName = 4096

// checkName returns fs.ErrInvalid for names that must not be opened.
func (s *Store) checkName(name string) error {
	if len(name) > maxName || strings.IndexByte(name, 0) >= 0 {
		return fs.ErrInvalid
	}
	isBytes := runtime.GOOS != "windows" && s.options.FS == nil // not always UTF-8
	if isBytes {
		return checkElements(name)
	}
	if !fs.ValidPath(name) {
		return fs.ErrInvalid
	}
	if s.options.FS != nil {
		return nil
	}
	if s.options.Root == "" && s.options.Unconfined {
		name = withoutDrive(name)
	}
	if !isWindowsName(name) || !filepath.IsLocal(name) {
		return fs.ErrInvalid
	}
	return nil
}

// checkElements is fs.ValidPath for a name of any bytes.
func checkElements(name string) error {
	if name == "." {
		return nil
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element == "." || element == ".." {
			return fs.ErrInvalid
		}
	}
	return nil
}

// withoutDrive removes "C:/" from a name.
func withoutDrive(name string) string {
	if len(name) > 3 && name[1] == ':' && name[2] == '/' && isLetter(name[0]) {
		return name[3:]
	}
	return name
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isWindowsName reports whether Windows would open exactly this name. It refuses other
// separators, volumes, streams, devices, and characters at an element's end that
// Windows ignores, because a file would then have several names.
func isWindowsName(name string) bool {
	if name == "." {
		return true
	}
	if strings.ContainsAny(name, "\\:*?\"<>|") {
		return false
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" {
			return false
		}
		last := element[len(element)-1]
		if last == '.' || last == ' ' || isWindowsDevice(element) {
			return false
		}
	}
	return true
}

// isWindowsDevice recognises the names that mean a device in every directory, with
// any extension.
func isWindowsDevice(element string) bool {
	base, _, _ := strings.Cut(element, ".")
	base = strings.ToLower(strings.TrimRight(base, " "))
	switch base {
	case "con", "prn", "aux", "nul", "conin$", "conout$", "clock$":
		return true
	}
	digit, ok := strings.CutPrefix(base, "com")
	if !ok {
		digit, ok = strings.CutPrefix(base, "lpt")
	}
	switch digit {
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return ok
	}
	return false
}
