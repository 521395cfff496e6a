//go:build !(linux && (amd64 || arm64 || riscv64 || loong64))

package netconn

// sendFile sends nothing here.
func (*conn) sendFile() (isSent bool, err error) { return false, nil }
