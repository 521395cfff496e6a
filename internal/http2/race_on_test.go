//go:build race

package http2

const isRace = true
