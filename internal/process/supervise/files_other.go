//go:build !unix

package supervise

import "os"

// hold returns f: there is nothing to do for files that cannot be inherited.
func hold(f *os.File) (*os.File, error) { return f, nil }

// newLifeline returns nothing: workers get no files on these systems.
func newLifeline() (read, write *os.File, err error) { return nil, nil, nil }
