// A package registry of one directory, on the loopback: NAME-VERSION.tgz files
// beside this one, version 1.0.0 each.
const http = require('http'), fs = require('fs'), crypto = require('crypto'), path = require('path')
const port = 4873, at = `http://127.0.0.1:${port}`
http.createServer((req, res) => {
  const name = decodeURIComponent(req.url.split('/')[1].split('?')[0])
  const file = path.join(__dirname, `${name}-1.0.0.tgz`)
  if (!fs.existsSync(file)) { res.writeHead(404, { 'content-type': 'application/json' }); return res.end('{}') }
  const tgz = fs.readFileSync(file)
  if (req.url.endsWith('.tgz')) return res.end(tgz)
  const manifest = JSON.parse(fs.readFileSync(path.join(__dirname, `${name}.json`)))
  const integrity = 'sha512-' + crypto.createHash('sha512').update(tgz).digest('base64')
  const version = { ...manifest, dist: { integrity, tarball: `${at}/${name}/-/${name}-1.0.0.tgz` } }
  res.writeHead(200, { 'content-type': 'application/json' })
  res.end(JSON.stringify({ name, 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version }, time: { '1.0.0': '2020-01-01T00:00:00.000Z' } }))
}).listen(port, '127.0.0.1')
