package sluice

// Byte slices that package bytes takes. Nobody writes to them, and no method
// returns them.
var (
	schemeEnd   = []byte("://")
	doubleSlash = []byte("//")
	percent25   = []byte("%25")
	slash       = []byte("/")
)
