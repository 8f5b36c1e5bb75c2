package foreign

// stripComments turns JSON with comments and trailing commas, as editors accept it, into JSON. Text in strings
// stays as it is.
func stripComments(in []byte) []byte {
	out := make([]byte, 0, len(in))
	comma := -1 // index in out of a comma that nothing but space followed
	for i := 0; i < len(in); i++ {
		c := in[i]
		switch {
		case c == '"':
			comma = -1
			start := i
			for i++; i < len(in) && in[i] != '"'; i++ {
				if in[i] == '\\' {
					i++
				}
			}
			out = append(out, in[start:min(i+1, len(in))]...)
		case c == '/' && i+1 < len(in) && in[i+1] == '/':
			for i < len(in) && in[i] != '\n' {
				i++
			}
			i--
		case c == '/' && i+1 < len(in) && in[i+1] == '*':
			for i += 2; i+1 < len(in) && (in[i] != '*' || in[i+1] != '/'); i++ {
			}
			i++
		case c == ',':
			comma = len(out)
			out = append(out, c)
		case (c == '}' || c == ']') && comma >= 0:
			out[comma] = ' '
			comma = -1
			out = append(out, c)
		default:
			if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
				comma = -1
			}
			out = append(out, c)
		}
	}
	return out
}
