//go:build !unix

package prefork

import "time"

// usage is empty: these systems do not report resources.
type usage struct{}

func (u *usage) open()              {}
func (u *usage) close()             {}
func (u *usage) resident() uint64   { return 0 }
func (u *usage) cpu() time.Duration { return 0 }
