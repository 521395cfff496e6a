//go:build race

package http2client

const isRace = true
