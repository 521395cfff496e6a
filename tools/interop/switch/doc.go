// Package switching tests that a program written for fasthttp needs no other change
// than that of its imports: each program in testdata is built as it is and with
// the imports of Sluice, both are run, and asked the same.
package switching
