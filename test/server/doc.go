// Package server tests servers as programs use them.
package server
