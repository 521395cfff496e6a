package ascii

// AddSum adds text to a sum that tells texts apart in all likelihood: FNV-1a, of the length
// too.
func AddSum(sum uint32, text []byte) uint32 {
	const prime = 16777619
	sum = (sum ^ uint32(len(text))) * prime
	for _, c := range text {
		sum = (sum ^ uint32(c)) * prime
	}
	return sum
}
