// SPDX-License-Identifier: Apache-2.0
// A second reader of Parquet: hyparquet_reader.mjs FOLDER FILE prints every row as an array of JSON: numbers and times as
// integers, doubles as the integer of their bits, texts as hexadecimal digits. FOLDER has the packages hyparquet and fzstd.
import { pathToFileURL } from 'node:url'

const [folder, file] = process.argv.slice(2)
const load = path => import(pathToFileURL(`${folder}/${path}`))
const { asyncBufferFromFile, parquetMetadataAsync, parquetRead } = await load('hyparquet/src/node.js')
const { decompress } = await load('fzstd/esm/index.mjs')

const bits = new DataView(new ArrayBuffer(8))
function print(value) {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'string') return JSON.stringify(Buffer.from(value, 'utf8').toString('hex'))
  bits.setFloat64(0, value)
  return bits.getBigInt64(0).toString()
}

const buffer = await asyncBufferFromFile(file)
const metadata = await parquetMetadataAsync(buffer)
const parsers = { timestampFromMicroseconds: micros => micros }
const compressors = { ZSTD: input => decompress(input) }
if (metadata.num_rows > 0n)
  await parquetRead({
    file: buffer, metadata, parsers, compressors,
    onComplete: rows => { for (const row of rows) console.log(`[${row.map(print).join(',')}]`) },
  })
