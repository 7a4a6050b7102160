"""Pictures behind a score: `gallery` has the images, `measures` finds their neighbours, `page` shows them."""
