//go:build !linux

package prefork

// lockFolder does nothing: two processes that find one stale socket may both replace it.
func lockFolder(string) (unlock func()) { return func() {} }
