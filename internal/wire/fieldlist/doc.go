// Package fieldlist has what the field lists of HTTP/2 and HTTP/3 have in common: Huffman
// codes, integers and strings of their compression (RFC 7541 section 5, which RFC 9204
// section 4.1 takes over), and the rules for fields and lists (RFC 9113 sections 8.1 to 8.3,
// RFC 9114 sections 4.1 to 4.4). It does no I/O and uses no clock.
package fieldlist
