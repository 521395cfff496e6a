//go:build !linux || !(amd64 || arm64 || riscv64 || loong64)

package load

import "errors"

// hasLoops: this system has event loops.
const hasLoops = false

func newLoop(*run, int) (thread, error) { return nil, errors.ErrUnsupported }
