package sluice

import (
	"regexp"
)

var dateLine = regexp.MustCompile(`Date: [^\r]*\r\n`)
