// Bytes out of the page, for the page and its workers.
'use strict';

async function inflate(text) {
  // Browsers before 2025 have only the detour through a URL.
  const packed = Uint8Array.fromBase64 ? new Response(Uint8Array.fromBase64(text)) :
      await fetch('data:application/octet-stream;base64,' + text);
  const bytes = packed.body.pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(bytes).arrayBuffer());
}
