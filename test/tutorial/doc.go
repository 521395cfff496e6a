// Package tutorial has the test of docs/guide/tutorial.md.
package tutorial
