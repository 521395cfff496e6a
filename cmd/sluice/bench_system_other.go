//go:build !unix

package main

import (
	"time"

	"github.com/sluicehttp/sluice/tools/lab/load"
)

// checkDescriptors: there is no limit that is known beforehand.
func checkDescriptors(load.Config) error { return nil }

// processCPU: it is not measured.
func processCPU() time.Duration { return 0 }
