// Package files tests FS and its relatives as programs use them.
package files
